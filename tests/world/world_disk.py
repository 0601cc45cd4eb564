"""The store's disk and its writer without a thread: commits in virtual time, crash images, and disks that are full.

A crash may come between any two bytes of a commit: the image that is found afterwards is the data file before or after
it, and a log of which any part of what was written since the last sync is missing. What SQLite's documentation says of
``synchronous`` is taken as the truth of what was synced: with FULL each commit, with less what was checkpointed.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

from unisono.apiserver.storage.database import Database, Loaded
from unisono.apiserver.storage.files import DiskFullError
from unisono.apiserver.storage.objects import Event
from unisono.apiserver.storage.store import Commit, Writer

_FILES = ("data", "data-wal", "data-acknowledged")
_PAGE = 4096


class CrashingDisk:
    """A ``Disk`` on a real SQLite file in ``folder``.

    Attributes:
        crashed: the machine lost power; nothing that is asked of this disk happens any more.
        fullness: share of the commits for which there is no room.
        in_flight: transactions that nobody was told of, the last of which a crash may interrupt.

    """

    def __init__(self, folder: Path, draw: Random) -> None:
        self.folder, self._draw = folder, draw
        self._inner = Database(folder / "data")
        self.crashed, self.fullness = False, 0.0
        self.in_flight: list[list[Event]] = []
        self._armed: Callable[[], None] | None = None
        self._image: Path | None = None
        self._unsynced_from: bytes | None = None

    def open(self) -> None:
        """Open the file, or the image that a crash left."""
        self._inner.open()
        self._remember_checkpoint()

    def load(self) -> Loaded:
        """Read everything."""
        return self._inner.load()

    def apply(self, events: Sequence[Event], *, compact_to: int = 0) -> None:
        """Store, unless the disk is full or the power goes."""
        if self._draw.random() < self.fullness:
            raise DiskFullError("no room is left on the disk")
        if self._armed is None:
            self._inner.apply(events, compact_to=compact_to)
            self.in_flight.append(list(events))
            return
        told, self._armed = self._armed, None
        before = self._read()
        self.in_flight.append(list(events))
        self._inner.apply(events, compact_to=compact_to)
        self._tear(before, self._read())
        self.crashed = True
        told()
        raise sqlite3.OperationalError("the power is gone")

    def backup(self, path: Path) -> None:
        """Write a copy."""
        self._inner.backup(path)

    def close(self) -> None:
        """Close the file, as a program does that ends."""
        if not self.crashed:
            self._inner.close()

    # ---- crashes

    def arm(self, told: Callable[[], None]) -> None:
        """Lose power in the next commit, and tell."""
        self._armed = told

    def cut(self) -> None:
        """Lose power now, between two commits."""
        if not self.crashed:
            files = self._read()
            self._tear(files, files)
            self.crashed = True

    def image(self, target: Path) -> None:
        """Put what a crash left into ``target``, and let go of the old files."""
        assert self._image is not None
        shutil.copytree(self._image, target)
        self._inner._disconnect()
        if self._inner._marker is not None:
            self._inner._marker.close()
            self._inner._marker = None

    def _read(self) -> dict[str, bytes]:
        paths = {name: self.folder / name for name in _FILES}
        return {name: path.read_bytes() for name, path in paths.items() if path.exists()}

    def _syncs_commits(self) -> bool:
        connection = self._inner._connection
        return connection is not None and connection.execute("PRAGMA synchronous").fetchone()[0] >= 2

    def _remember_checkpoint(self) -> None:
        self._unsynced_from = None if self._syncs_commits() else self._read().get("data-wal", b"")

    def _tear(self, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        """Make the image of a crash between two states of the files."""
        self._image = self.folder / "crash"
        self._image.mkdir()
        # The marker is one small write that is not synced; it never claims more than was acknowledged.
        image = {**after, "data-acknowledged": before.get("data-acknowledged", b"")}
        old, new = before.get("data-wal", b""), after.get("data-wal", b"")
        if self._unsynced_from is not None:
            old = self._unsynced_from
        if before["data"] == after["data"] or self._unsynced_from is not None:
            image["data"] = before["data"]
            at = self._draw.randrange(len(new) + 1)
            if new[: len(old)] == old:
                at = self._draw.randrange(len(old), len(new) + 1)
            # Up to there the new bytes are on the disk, and behind that those that were there before.
            image["data-wal"] = new[:at] + old[at:]
        else:
            # The log was synced before its pages went into the file: any of them may be there.
            pages = range(0, max(len(before["data"]), len(after["data"])), _PAGE)
            sources = [self._draw.choice((before["data"], after["data"])) for _ in pages]
            image["data"] = b"".join(
                (source[at : at + _PAGE] or after["data"][at : at + _PAGE])
                for at, source in zip(pages, sources, strict=True)
            )
        for name, content in image.items():
            if content or name == "data":
                (self._image / name).write_bytes(content)


class Pump(Writer):
    """The store's writer as callbacks of the loop: each transaction takes a time that is drawn."""

    draw: Random
    slowest = 0.01

    def __init__(self, disk: Any, _: Any, on_batch: Any, *, keep_events: int, keep_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._due = False
        self._disk_here = disk

        told: deque[tuple[Callable[[], None], list[list[Event]]]] = deque()

        def tell() -> None:
            callback, committed = told.popleft()
            # Nobody hears of a commit that the power went in.
            if not disk.crashed:
                disk.in_flight = [one for one in disk.in_flight if one not in committed]
                callback()

        def reported(callback: Callable[[], None]) -> None:
            told.append((callback, list(disk.in_flight)))
            self._loop.call_later(self.draw.random() ** 3 * self.slowest, tell)

        super().__init__(disk, reported, on_batch, keep_events=keep_events, keep_bytes=keep_bytes)

    def start(self) -> Future[Any]:
        """Open the file."""
        self._begin()
        return self._loaded

    def submit(self, commit: Commit) -> None:
        """Queue a commit, and write it after a while with what has come by then."""
        super().submit(commit)
        self._soon()

    def stop(self) -> None:
        """Commit what is queued and close the file."""
        self._queue.put(None)
        while not self._disk_here.crashed and self._step():
            pass

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_later(self.draw.random() ** 3 * self.slowest, self._write)

    def _write(self) -> None:
        self._due = False
        if not self._disk_here.crashed and not self._queue.empty():
            self._step()
            if not self._queue.empty():
                self._soon()
