"""The files of one container's log, as the shim writes and renames them: records read in blocks, the tail from the end.

A record is a line ``TIME STREAM F|P TEXT`` (the CRI format). A line of the container is its partial records (``P``) and
the full one (``F``) that ends it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 1 << 16
# The shim cuts records at a quarter of this; a longer one means a damaged file.
_LONGEST_RECORD = 1 << 18
# Records that are looked at between two chances for others to run.
_TURN = 1000


class GrowingFile:
    """Reads a growing log file, over its renaming when it is full."""

    def __init__(self, path: Path) -> None:
        self._path, self._rest = path, bytearray()
        self._file = self._open()

    @property
    def fd(self) -> int | None:
        """Descriptor of the file as it is now; None while there is none."""
        return self._file

    def skip_to(self, offset: int) -> None:
        """Begin there."""
        if self._file is not None:
            os.lseek(self._file, offset, os.SEEK_SET)

    def blocks(self) -> Iterator[bytes]:
        """Whole records written since the last call."""
        while True:
            yield from self._drain()
            if not self._renamed():
                return
            # The shim may have written between our last read and its renaming.
            yield from self._drain()
            self.close()
            self._file = self._open()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None

    def _drain(self) -> Iterator[bytes]:
        if self._file is None:
            self._file = self._open()
        while self._file is not None and (data := os.read(self._file, _BLOCK)):
            whole, newline, rest = data.rpartition(b"\n")
            if newline:
                yield bytes(self._rest) + whole + newline
                self._rest.clear()
            self._rest += rest
            if len(self._rest) > _LONGEST_RECORD:
                self._rest.clear()

    def _renamed(self) -> bool:
        if self._file is None:
            return False
        try:
            return self._path.stat().st_ino != os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False


def renamed_files(log: Path, reader: GrowingFile) -> list[Path]:
    """The files that were renamed when they were full, oldest first, without the one that ``reader`` has open."""
    own = None if reader.fd is None else os.fstat(reader.fd).st_ino
    found = (path for path in log.parent.glob(f"{log.name}.*") if path.suffix[1:].isdigit())
    return [path for path in sorted(found, key=lambda path: -int(path.suffix[1:])) if _inode(path) not in (None, own)]


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def blocks_of(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Blocks of whole records of a file that does not grow any more."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            while lines := file.readlines(_BLOCK):
                yield b"".join(lines)
    except FileNotFoundError:
        return


class Tail:
    """Counts lines from the end, file after file.

    Args:
        lines: how many are wanted.

    """

    def __init__(self, lines: int) -> None:
        self._left = lines
        self._last = True

    def search(self, fd: int) -> Iterator[int | None]:
        """Where the wanted lines begin in a file; None in between, to let others run, and 0 where all of it is wanted.

        When the last value is 0 the file before it may hold more of them.
        """
        if not os.fstat(fd).st_size:
            yield 0
            return
        with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
            place, seen = data.rfind(b"\n") + 1, 0
            while place:
                begin = data.rfind(b"\n", 0, place - 1) + 1
                # A line that has not ended yet is the last one.
                if is_full(data[begin : begin + 64]) or self._last:
                    if not self._left:
                        yield place
                        return
                    self._left -= 1
                self._last = False
                place, seen = begin, seen + 1
                if seen % _TURN == 0:
                    yield None
        yield 0


def is_full(record: bytes) -> bool:
    """Whether a record ends its line."""
    return record.split(b" ", 3)[2:3] == [b"F"]


def last_bytes(path: Path, most: int) -> bytes:
    """Whole records from the last ``most`` bytes of a file; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except FileNotFoundError:
        return b""
    whole = data[: data.rfind(b"\n") + 1]
    return whole if size <= most else whole[whole.find(b"\n") + 1 :]
