"""Reads rows straight from the pages of an SQLite file, where SQLite itself finds the file malformed.

Trees are not followed: every page is looked at by itself, so that one that is destroyed takes only its own rows along.
The format is https://www.sqlite.org/fileformat2.html; pages of the write-ahead log count instead of those of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAGIC = b"SQLite format 3\0"
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_HEADERS = {_TABLE_LEAF: 8, _INDEX_LEAF: 8, _INDEX_INTERIOR: 12}
# What SQLite makes a file of, unless its header says otherwise.
_PAGE_SIZE = 4096
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class _Torn(ValueError):
    """Bytes that are no cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One row, or what is left of one.

    Attributes:
        page: number of its page, from 1.
        table: it belongs to a table, not to an index.
        rowid: of a table's row.
        values: its columns; None where they cannot be read.
        raw: its bytes in the page.
    """

    page: int
    table: bool
    rowid: int
    values: Sequence[Any] | None
    raw: bytes


class Pages:
    """The pages of a file with its log laid over them."""

    def __init__(self, file: bytes, log: bytes = b"") -> None:
        self._file = file
        size = int.from_bytes(file[16:18], "big") if file.startswith(_MAGIC) else _PAGE_SIZE
        size = 65536 if size == 1 else size
        self.size = size if size >= 512 and size & (size - 1) == 0 else _PAGE_SIZE
        self._logged = _logged(log, self.size)
        self.count = max(len(file) // self.size, *self._logged, 0) if self._logged else len(file) // self.size
        first = self.page(1)
        self.headed = first.startswith(_MAGIC)
        self._unused = self._freelist(first) if self.headed else frozenset()

    @classmethod
    def read(cls, path: Path) -> Pages:
        """The file at ``path`` with the log beside it.

        Raises:
            OSError: it cannot be read.
        """
        log = path.with_name(path.name + "-wal")
        return cls(path.read_bytes(), log.read_bytes() if log.exists() else b"")

    def page(self, number: int) -> bytes:
        """Page ``number``, from 1; empty where there is none."""
        if number in self._logged:
            return self._logged[number]
        return self._file[(number - 1) * self.size : number * self.size] if number > 0 else b""

    def cells(self) -> Iterator[Cell]:
        """All rows of tables, and the keys of indexes, in the pages that are in use."""
        for number in range(1, self.count + 1):
            if number not in self._unused:
                yield from self._cells(number)

    def _cells(self, number: int) -> Iterator[Cell]:
        page = self.page(number)
        start = 100 if number == 1 and self.headed else 0
        if len(page) < self.size or page[start] not in _HEADERS:
            return
        kind = page[start]
        pointers = start + _HEADERS[kind]
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        for index in range(min(count, (self.size - pointers) // 2)):
            at = int.from_bytes(page[pointers + 2 * index : pointers + 2 * index + 2], "big")
            yield self._cell(number, page, kind, at)

    def _cell(self, number: int, page: bytes, kind: int, at: int) -> Cell:
        table = kind == _TABLE_LEAF
        rowid, end = 0, at
        try:
            cursor = at + 4 if kind == _INDEX_INTERIOR else at
            length, cursor = _varint(page, cursor)
            if table:
                rowid, cursor = _varint(page, cursor)
            payload, end = self._payload(page, cursor, length, table)
            return Cell(number, table, rowid, _record(payload), page[at:end])
        except _Torn:
            return Cell(number, table, rowid, None, page[at : max(end, min(at + 512, self.size))])

    def _payload(self, page: bytes, at: int, length: int, table: bool) -> tuple[bytes, int]:
        """The bytes of a record, and where its part in the page ends."""
        usable = self.size
        most = usable - 35 if table else (usable - 12) * 64 // 255 - 23
        if length <= most:
            if at + length > usable:
                raise _Torn
            return page[at : at + length], at + length
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        if at + local + 4 > usable or length > self.count * usable:
            raise _Torn
        parts, left = [page[at : at + local]], length - local
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        while left > 0:
            more = self.page(following)
            if len(more) < usable:
                raise _Torn
            parts.append(more[4 : 4 + left])
            left -= len(parts[-1])
            following = int.from_bytes(more[:4], "big")
        return b"".join(parts), at + local + 4

    def _freelist(self, first: bytes) -> frozenset[int]:
        """Pages that hold nothing any more: what stands in them was deleted."""
        unused: set[int] = set()
        trunk = int.from_bytes(first[32:36], "big")
        while trunk and trunk not in unused and (page := self.page(trunk)):
            unused.add(trunk)
            count = min(int.from_bytes(page[4:8], "big"), self.size // 4 - 2)
            unused.update(struct.unpack_from(f">{count}I", page, 8))
            trunk = int.from_bytes(page[:4], "big")
        return frozenset(unused)


def _logged(log: bytes, size: int) -> dict[int, bytes]:
    """Newest pages of the complete transactions in a write-ahead log.

    The log's own checksums are not computed: what a page holds is believed row by row.
    """
    salts = log[16:24]
    done: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for at in range(32, len(log) - size - 23, size + 24):
        number, committed = struct.unpack_from(">II", log, at)
        if log[at + 8 : at + 16] != salts:
            break  # what follows is from before the log began again
        pending[number] = log[at + 24 : at + 24 + size]
        if committed:
            done.update(pending)
            pending.clear()
    return done


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(9):
        if at + index >= len(data):
            raise _Torn
        byte = data[at + index]
        if index == 8:
            return _signed(value << 8 | byte), at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    raise _Torn


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _record(payload: bytes) -> list[Any]:
    end, cursor = _varint(payload, 0)
    if not 0 < end <= len(payload):
        raise _Torn
    types = []
    while cursor < end:
        kind, cursor = _varint(payload, cursor)
        types.append(kind)
    values: list[Any] = []
    at = end
    for kind in types:
        value, at = _value(payload, kind, at)
        values.append(value)
    return values


def _value(payload: bytes, kind: int, at: int) -> tuple[Any, int]:
    if kind in (0, 8, 9):
        return (None, 0, 1)[(0, 8, 9).index(kind)], at
    if kind in _INTEGERS or kind == 7:
        size = _INTEGERS.get(kind, 8)
        part = payload[at : at + size]
        if len(part) < size:
            raise _Torn
        return (struct.unpack(">d", part)[0] if kind == 7 else int.from_bytes(part, "big", signed=True)), at + size
    size = (kind - 12) // 2
    if kind < 12 or at + size > len(payload):
        raise _Torn
    part = payload[at : at + size]
    return (part.decode(errors="surrogateescape") if kind % 2 else part), at + size
