"""Reading files of workloads and clusters, plain or gzip-compressed, with bounds."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from unisono.errors import UnisonoError

MOST_ROWS = 5_000_000
_MOST_BYTES = 4 << 30
_LONGEST_LINE = 1 << 20


class InputError(UnisonoError):
    """An input of a simulation breaks a rule; the message names file, line and field."""


class _Bounded(io.RawIOBase):
    """Passes bytes on up to a limit: a small compressed file may unpack to anything."""

    def __init__(self, inner: IO[bytes], limit: int) -> None:
        self._inner, self._left = inner, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise InputError(f"the file is larger than {_MOST_BYTES >> 30} GiB unpacked")
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_text(path: Path) -> Iterator[Iterator[str]]:
    """Lines of a file, unpacked where its name ends in ``.gz``.

    Raises:
        InputError: it cannot be read, is too large, or has a line of more than a MiB.
    """
    try:
        with path.open("rb") as raw:
            inner: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            text = io.TextIOWrapper(io.BufferedReader(_Bounded(inner, _MOST_BYTES)), encoding="utf-8-sig")
            yield _lines(text, path)
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: the file cannot be read: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: the file cannot be read: {error.strerror or error}") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[Iterator[bytes]]:
    """Lines of a recording, each with its line end, unpacked where the name ends in ``.gz``.

    A packed file that breaks off, because its writer still writes or was killed, ends at the last whole line.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as raw:
            yield _until_it_breaks_off(gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else iter(raw)
    except gzip.BadGzipFile as error:
        raise InputError(f"{path}: the file cannot be read: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: the file cannot be read: {error.strerror or error}") from None


def _until_it_breaks_off(packed: Iterator[bytes]) -> Iterator[bytes]:
    with suppress(EOFError):
        yield from packed


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    number = 0
    while line := text.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE:
            raise InputError(f"{path}:{number}: the line is longer than {_LONGEST_LINE} characters")
        yield line


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table, by column name."""

    where: str
    cells: dict[str, str]

    def text(self, column: str, default: str | None = None) -> str:
        """The cell; ``default`` where the column is missing or empty."""
        value = (self.cells.get(column) or "").strip()
        if value:
            return value
        if default is None:
            raise InputError(f"{self.where}: {column}: the cell is empty")
        return default

    def number(self, column: str, default: float | None = None, *, least: float | None = 0.0) -> float:
        """The cell as a finite number."""
        value = self.text(column, "" if default is not None else None)
        if not value and default is not None:
            return default
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not abs(number) < 1e15 or (least is not None and number < least):
            bound = "" if least is None else f" of at least {least:g}"
            raise InputError(f"{self.where}: {column}: {value!r} is not a number{bound}")
        return number

    def whole(self, column: str, default: int | None = None, *, least: int | None = 0) -> int:
        """The cell as a whole number."""
        number = self.number(column, default, least=least)
        if number != int(number):
            raise InputError(f"{self.where}: {column}: {self.cells[column]!r} is not a whole number")
        return int(number)


def _lacks_header(path: Path, columns: Sequence[str]) -> bool:
    if not columns:
        return False
    with open_text(path) as lines:
        first = next(lines, "").rstrip("\r\n").split(",")
    return len(first) == len(columns) and set(first).isdisjoint(columns)


def rows(path: Path, needed: Sequence[str], *, delimiter: str = ",", columns: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of a table with a header line, as CSV.

    Args:
        path: of the file.
        needed: columns that there must be.
        delimiter: between cells.
        columns: what the cells are where the table may come without its header.

    Raises:
        InputError: a needed column is missing, or the file cannot be read.
    """
    header = columns if _lacks_header(path, columns) else None
    with open_text(path) as lines:
        reader = csv.DictReader(lines, header, delimiter=delimiter)
        try:
            names = reader.fieldnames = [name.strip() for name in reader.fieldnames or ()]
            missing = [name for name in needed if name not in names]
            if missing:
                raise InputError(f"{path}:1: no column {missing[0]}; the header has {', '.join(names) or 'none'}")
            for count, cells in enumerate(reader):
                if count >= MOST_ROWS:
                    raise InputError(f"{path}: more than {MOST_ROWS} rows are too many")
                yield Row(f"{path}:{reader.line_num}", cells)
        except csv.Error as error:
            raise InputError(f"{path}:{reader.line_num}: {error}") from None
