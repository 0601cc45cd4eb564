"""The newest acknowledged revision, in a small file beside the data: what the data file and its log must still hold.

It is overwritten in place after each commit, and synced only when the store is opened and closed. The system keeps it
when the process dies; after a power failure it may be some seconds old. So it never claims more than was acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path
from typing import NamedTuple

SUFFIX = "-acknowledged"


class Mark(NamedTuple):
    """What a marker says: of which store, and at least which revision was acknowledged."""

    store: int
    revision: int


def read_mark(database: Path) -> Mark | None:
    """The mark beside ``database``; None where there is none, or a torn one, which proves nothing."""
    try:
        text = marker_path(database).read_bytes()
    except OSError:
        return None
    body, _, check = text.partition(b"\n")[0].rpartition(b" ")
    words = body.split()
    if len(words) != 3 or words[0] != b"unisono" or check != _check(body):
        return None
    return Mark(int(words[1], 16), int(words[2]))


def marker_path(database: Path) -> Path:
    """Where the marker of ``database`` is."""
    return database.with_name(database.name + SUFFIX)


class Marker:
    """The marker of an open store; one thread uses it."""

    def __init__(self, database: Path, store: int) -> None:
        self._store = store
        self._file = os.open(marker_path(database), os.O_WRONLY | os.O_CREAT, 0o600)

    def note(self, revision: int) -> None:
        """Write that everything up to ``revision`` is acknowledged."""
        body = b"unisono %016x %020d" % (self._store, revision)
        # A mark that is older than the truth is still true: a write must not fail for it.
        with contextlib.suppress(OSError):
            os.pwrite(self._file, b"%s %s\n" % (body, _check(body)), 0)

    def sync(self) -> None:
        """Bring it to the disk."""
        with contextlib.suppress(OSError):
            os.fsync(self._file)

    def close(self) -> None:
        """Bring it to the disk and close it."""
        self.sync()
        os.close(self._file)


def _check(body: bytes) -> bytes:
    return b"%08x" % zlib.crc32(body)
