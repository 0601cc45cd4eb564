"""Results of functions, read back from the logs of pods; the counterpart of ``worker.frames``."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

from unisono.sdk.errors import CannotShip, RemoteError
from unisono.sdk.pod_entrypoint import MAIN


class Frames:
    """Collects the lines of one pod's log that carry its result."""

    def __init__(self, token: str) -> None:
        self._token = f"{token} "
        self._pieces: dict[int, bytes] = {}
        self._kind, self._count, self._total = "", 0, ""

    def feed(self, line: str) -> bool:
        """Whether the line belongs to the result."""
        if not line.startswith(self._token):
            return False
        try:
            _, kind, number, count, total, text = line.split(" ")
            if total != self._total:
                self._pieces.clear()
            self._kind, self._count, self._total = kind, int(count), total
            self._pieces[int(number)] = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            self._pieces.clear()
        return True

    def value(self, rank: int, folder: Path | None = None) -> Any:
        """The result of the function.

        Args:
            rank: number of the worker, for errors.
            folder: where large results are, as files.

        Raises:
            RemoteError: the function raised.
            CannotShip: the log has no whole result, or its file is not what the log says.

        """
        packed = b"".join(self._pieces.get(number, b"") for number in range(self._count))
        if not self._count or hashlib.sha256(packed).hexdigest()[:16] != self._total:
            raise CannotShip(
                f"The result of rank {rank} is not in its pod's log: the process was killed, or the log was cut off. "
                "Print less, or write the result to a file on shared storage and return its path."
            )
        data = zlib.decompress(packed)
        if self._kind == "error":
            told = json.loads(data)
            raise RemoteError(f"Rank {rank} raised {told['message']}", rank=rank, traceback=told["traceback"])
        if self._kind == "file":
            data = _from_file(json.loads(data), folder, rank)
        try:
            return _Unpickler(io.BytesIO(data)).load()
        except Exception as error:  # unpickling runs code of any class
            raise CannotShip(f"The result of rank {rank} cannot be unpickled here: {error}.") from error


def _from_file(told: dict[str, Any], folder: Path | None, rank: int) -> bytes:
    """A large result; the log, which only the pod's node writes, says what must be in its file."""
    try:
        if folder is None:
            raise FileNotFoundError(2, "there is no folder for results")
        path = folder / Path(str(told["path"])).name
        data = path.read_bytes()
        path.unlink()
    except OSError as error:
        raise CannotShip(f"The result of rank {rank} cannot be read from its file: {error.strerror}.") from None
    if len(data) != told["size"] or hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise CannotShip(f"The result of rank {rank} is not what was written: its file {path} has changed.")
    return data


class _Unpickler(pickle.Unpickler):  # the bytes come from the caller's own function
    """Finds the classes of a script where this process has them."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class("__main__" if module == MAIN else module, name)
