"""Reads a data file from beginning to end without changing it, and says what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from unisono.apiserver.storage.entry import Key
from unisono.apiserver.storage.errors import Finding, StoreError, StoreInUse
from unisono.apiserver.storage.files import beside
from unisono.apiserver.storage.judgement import Contents, Judgement, Rejected, judge
from unisono.apiserver.storage.pages import Cell, Pages
from unisono.apiserver.storage.rows import EventRow, ObjectRow
from unisono.apiserver.storage.schema import (
    APPLICATION_ID,
    KEY_QUERY,
    SCHEMA_VERSION,
    check_identity,
    event_query,
    object_query,
)

# Lines that are shown of what SQLite says of the file.
_TOLD = 3


def inspect(path: Path, otherwise: str, *, alone: bool = False, thorough: bool = True) -> tuple[Contents, Judgement]:
    """Read and judge the data file at ``path`` with the log beside it.

    Args:
        path: a file that is there.
        otherwise: what to do if the file is the wrong one.
        alone: it has no log, and nothing is to be made beside it.
        thorough: SQLite also checks what no row depends on, such as the list of free pages; without it, a file that was
            closed and of which every row is as it should be is taken as whole.

    Raises:
        StoreError: it is foreign, of a newer version, in use, or may not be read; damage is in the judgement.

    """
    if not thorough:
        contents = _closed(path)
        judged = None if contents is None else judge(contents)
        if contents is not None and judged is not None and not judged.findings and not judged.running:
            return contents, judged
    try:
        contents = _read(path, otherwise, alone=alone)
    except sqlite3.DatabaseError as error:
        if _busy(error):
            raise StoreInUse(
                f"{path} is in use by another Unisono: stop that one, or choose another data directory"
            ) from error
        if not _of_file(error):
            raise StoreError(
                f"{path} cannot be read ({error}): check its disk, and that there is room on it"
            ) from error
        contents = _salvage(path, [str(error)], otherwise)
    except OSError as error:
        raise StoreError(f"{path} cannot be read ({error.strerror}): {otherwise}") from error
    return contents, judge(contents)


@contextmanager
def _reading(path: Path, *, alone: bool) -> Iterator[sqlite3.Connection]:
    """A connection that changes nothing.

    Args:
        path: the file.
        alone: it has no log, and nothing is to be made beside it.
    """
    # SQLite makes both, and a log that was not there must not seem to have been.
    made = [file for file in (beside(path, "-shm"), beside(path, "-wal")) if not file.exists()]
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=1.0)) as connection:
        # Damaged text must reach the one who judges it.
        connection.text_factory = lambda data: data.decode(errors="surrogateescape")
        try:
            yield connection
        finally:
            connection.close()
            for file in made:
                if not alone:
                    file.unlink(missing_ok=True)


def _read(path: Path, otherwise: str, *, alone: bool) -> Contents:
    if beside(path, "-journal").exists():
        # A crash while the file was made: SQLite takes back what was half done.
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")
    with _reading(path, alone=alone) as connection:
        version = check_identity(connection, path, otherwise)
        problems = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        if not problems:
            return Contents(
                version,
                [ObjectRow(*row) for row in connection.execute(object_query(version))],
                [EventRow(*row) for row in connection.execute(event_query(version))],
                dict(connection.execute("SELECT key, value FROM meta NOT INDEXED")),
            )
    return _salvage(path, problems, otherwise)


def _closed(path: Path) -> Contents | None:
    """What is in a file that was closed, if its table and its index of keys agree; None where a closer look is due."""
    if any(beside(path, suffix).exists() for suffix in ("-journal", "-wal")):
        return None
    try:
        with _reading(path, alone=False) as connection:
            connection.text_factory = str
            connection.execute("PRAGMA cell_size_check = ON")
            if check_identity(connection, path, "") != SCHEMA_VERSION:
                return None
            rows = connection.execute(object_query(SCHEMA_VERSION, place=True)).fetchall()
            index = connection.execute(KEY_QUERY).fetchall()
            table = [(row[0], row[1], row[2], row[6]) for row in rows]
            table.sort()
            if table != index:  # a row or a key is lost, in the wrong place, or that of another
                return None
            return Contents(
                SCHEMA_VERSION,
                [ObjectRow(*row[:6]) for row in rows],
                [EventRow(*row) for row in connection.execute(event_query(SCHEMA_VERSION))],
                dict(connection.execute("SELECT key, value FROM meta NOT INDEXED")),
            )
    except (sqlite3.Error, StoreError, OSError, TypeError):
        return None


def _salvage(path: Path, problems: list[str], otherwise: str) -> Contents:
    """Read what can be read of a malformed file."""
    pages = Pages.read(path)
    version = _version(pages, path, otherwise)
    told = [" ".join(line.split()) for problem in problems for line in problem.splitlines()]
    contents = Contents(version, problems=[Finding("file", line) for line in told[:_TOLD]])
    meant = int.from_bytes(pages.page(1)[28:32], "big") if pages.headed else 0
    if meant > pages.count:
        contents.problems.append(
            Finding("file", f"{meant - pages.count} of {meant} pages are missing; what only they held cannot be named")
        )
    objects, events, keys = _sorted_cells(pages, contents)
    if not pages.headed:
        # Which pages are in use is not known any more, so that deleted rows may stand there.
        sure = keys | {event.key for event in events}
        unsure = [row for row in objects if row.key not in sure]
        objects = [row for row in objects if row.key in sure]
        contents.rejected += [
            Rejected("/".join(map(str, row.key)), "it may have been deleted", tuple(row)) for row in unsure
        ]
    if not (pages.headed or objects or events or contents.meta):
        raise StoreError(f"{path} is not a Unisono data file: {otherwise}")
    contents.objects, contents.keys = objects, frozenset(keys)
    contents.events = sorted(events, key=lambda row: row.revision)
    return contents


def _sorted_cells(pages: Pages, contents: Contents) -> tuple[list[ObjectRow], list[EventRow], set[Key]]:
    objects: list[ObjectRow] = []
    events: list[EventRow] = []
    keys: set[Key] = set()
    for cell in pages.cells():
        values = cell.values
        if values is None:
            what = f"a row in page {cell.page}" if cell.table else f"a key in page {cell.page}"
            contents.rejected.append(Rejected(what, "it cannot be read", (cell.raw,), cell.page))
        elif not cell.table:
            if len(values) == 4 and all(isinstance(value, str) for value in values[:3]):
                keys.add((values[0], values[1], values[2]))
        elif len(values) == 2 and isinstance(values[0], str):
            contents.meta[values[0]] = values[1]
        elif len(values) in (7, 8) and values[0] is None:
            events.append(EventRow(cell.rowid, *values[1:]))
        elif len(values) in (5, 6) and not _of_schema(cell):
            objects.append(ObjectRow(*values))
    return objects, events, keys


def _of_schema(cell: Cell) -> bool:
    """Whether a row is one of SQLite's own table of tables."""
    values: Any = cell.values
    return len(values) == 5 and values[0] in ("table", "index")


def _version(pages: Pages, path: Path, otherwise: str) -> int:
    first = pages.page(1)
    if not pages.headed:
        return SCHEMA_VERSION
    application, version = int.from_bytes(first[68:72], "big"), int.from_bytes(first[60:64], "big")
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a Unisono data file: {otherwise}")
    if not 1 <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this Unisono reads versions up to {SCHEMA_VERSION}: {otherwise}"
        )
    return version


def _busy(error: sqlite3.DatabaseError) -> bool:
    return any(word in str(error) for word in ("locked", "busy"))


def _of_file(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is wrong, and not the disk, the room on it or the rights."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    wrong = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
    return code & 0xFF in wrong or code == sqlite3.SQLITE_IOERR_SHORT_READ


def readable(path: Path, otherwise: str) -> None:
    """Check that ``path`` is a file that this process may use.

    Raises:
        StoreError: it is not; the message says why.

    """
    if path.is_dir() or not (path.is_file() or not path.exists()):
        raise StoreError(
            f"{path} is a {'directory' if path.is_dir() else 'special file'}, not a data file: {otherwise}"
        )
    for place in (path, path.parent):
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            raise StoreError(f"{place} {_why_not(place)}, or {otherwise}")


def _why_not(place: Path) -> str:
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return "is on a disk that is mounted read-only: mount it for writing"
    status = place.stat()
    return (
        f"may not be read and written by user {os.geteuid()} (it belongs to user {status.st_uid}): "
        "give this user the right to write it"
    )
