"""Reads a data file from beginning to end without changing it: what is wrong with it, which rows hold, what is lost."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unisono.apiserver.storage.files import Finding, LostWrites, Mark, StoreError, StoreInUse, beside
from unisono.apiserver.storage.objects import Key
from unisono.apiserver.storage.pages import Cell, Pages
from unisono.apiserver.storage.schema import (
    APPLICATION_ID,
    KEY_QUERY,
    SCHEMA_VERSION,
    EventRow,
    ObjectRow,
    check_identity,
    describe,
    event_query,
    object_query,
    wrong_event,
    wrong_object,
)

# Which rows of a data file can be believed, and what is wrong with the others. Pure.
#
# The history is a second copy of what changed lately, and the index of keys a second list of what there must be: they
# confirm the rows, name those that are lost, and give back those that are damaged.

META = ("revision", "compacted")
META_2 = (*META, "running", "store")


@dataclass(frozen=True, slots=True)
class Rejected:
    """Bytes that are not served: of a row, or of what cannot even be read as one."""

    what: str
    why: str
    row: tuple[Any, ...]
    page: int = 0


@dataclass(slots=True)
class Contents:
    """What was read of a file, believed or not.

    Attributes:
        version: schema version.
        objects: rows of ``objects``.
        events: rows of ``events``, in the order in which they are stored.
        meta: rows of ``meta``.
        keys: what there must be, by the index; None where rows were read by SQLite, which has compared them.
        problems: what is known to be wrong with the file itself.
        rejected: what could not be read as rows.
    """

    version: int
    objects: Sequence[ObjectRow] = ()
    events: Sequence[EventRow] = ()
    meta: dict[Any, Any] = field(default_factory=dict)
    keys: frozenset[Key] | None = None
    problems: list[Finding] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


@dataclass(slots=True)
class Judgement:
    """What of a file is served, and what is wrong with it.

    Attributes:
        objects: rows to be believed, the ones given back by the history among them.
        events: history to be believed, in order.
        findings: everything that is wrong; empty for a whole file.
        rejected: rows that are not served.
        revision: counter of versions; at least that of every row that was seen.
        compacted: up to where history may have been dropped.
        store: number of the store; 0 before schema version 2.
        running: the file is as a running process left it, so that it needs its log.
    """

    objects: dict[Key, ObjectRow]
    events: list[EventRow]
    findings: list[Finding]
    rejected: list[Rejected]
    revision: int
    compacted: int
    store: int
    running: bool


def judge(contents: Contents) -> Judgement:
    """Decide on every row."""
    return _Judge(contents).judge()


class _Judge:
    def __init__(self, contents: Contents) -> None:
        self._read = contents
        self._summed = contents.version > 1
        self._findings = list(contents.problems)
        self._rejected = list(contents.rejected)
        self._objects: dict[Key, ObjectRow] = {}
        self._broken: dict[Key, str] = {}
        self._wrong = [wrong_object(row, summed=self._summed) for row in contents.objects]

    def judge(self) -> Judgement:
        meta = self._meta()
        events = self._events()
        self._believe()
        self._confirm(events, meta)
        counter, compacted = meta.get("revision", 0), meta.get("compacted", 0)
        if self._findings:
            seen = (*(row.revision for row in self._objects.values()), *(event.revision for event in events))
            counter = max(counter, 0, *seen)
        return Judgement(
            self._objects,
            events,
            self._findings,
            self._rejected,
            counter,
            compacted,
            meta.get("store", 0),
            bool(meta.get("running", 0)),
        )

    def _meta(self) -> dict[str, int]:
        counters = META_2 if self._summed else META
        good = {key: value for key, value in self._read.meta.items() if key in counters and type(value) is int}
        for key in counters:
            if key not in good:
                self._found("file", f"the counter '{key}' is missing in table meta")
        return good

    def _events(self) -> list[EventRow]:
        good: list[EventRow] = []
        # The newest events hold the objects as they are stored, which need not be checked twice.
        believed = zip(self._read.objects, self._wrong, strict=True)
        stored = {row.revision: row for row, wrong in believed if wrong is None}
        for row in self._read.events:
            why = wrong_event(row, summed=self._summed, stored=stored.get(row.revision))
            if why is not None:
                self._reject(f"history of {describe(row.key)} at revision {row.revision}", why, row)
            elif good and row.revision <= good[-1].revision:
                self._reject(f"history of {describe(row.key)} at revision {row.revision}", "it is out of order", row)
            else:
                good.append(row)
        return good

    def _believe(self) -> None:
        revisions: dict[int, Key] = {}
        for row, why in zip(self._read.objects, self._wrong, strict=True):
            if why is not None:
                self._broken[row.key] = why
                self._rejected.append(Rejected(describe(row.key), why, tuple(row)))
                continue
            key, revision = row[:3], row[3]
            other = self._objects.get(key)
            if other is not None:
                older, row = sorted((row, other), key=_age)  # noqa: PLW2901  # the newer one counts
                self._reject(describe(key), "it is stored twice; the newer one counts", older)
            elif revision in revisions:
                self._found(describe(key), f"it has revision {revision}, as {describe(revisions[revision])}")
            revisions[row[3]] = key
            self._objects[key] = row

    def _confirm(self, events: list[EventRow], meta: dict[str, int]) -> None:
        last = {event.key: event for event in events}
        counter, compacted = meta.get("revision"), meta.get("compacted")
        newest = events[-1].revision if events else compacted
        if counter is not None and newest is not None and counter != newest and not self._rejected:
            self._found("file", f"the counter of versions is {counter}, the newest change has revision {newest}")
        for key, event in last.items():
            self._compare(key, event)
        for key, row in self._objects.items():
            if counter is not None and row.revision > counter:
                self._found(describe(key), f"its revision {row.revision} is above the counter of versions, {counter}")
            elif compacted is not None and row.revision > compacted and key not in last and not self._rejected:
                self._found(describe(key), f"its change at revision {row.revision} is missing in the history")
        for key in (self._read.keys or frozenset()) - self._objects.keys() - self._broken.keys():
            if key not in last:
                self._found(describe(key), "its row is lost", lost=True)
        for key, why in self._broken.items():
            if key not in self._objects and (key not in last or last[key].type == "DELETED"):
                self._found(describe(key), why, lost=True)

    def _compare(self, key: Key, event: EventRow) -> None:
        """Hold an object against its last change."""
        row = self._objects.get(key)
        if event.type == "DELETED":
            if row is not None and row.revision < event.revision:
                self._reject(describe(key), f"it was deleted at revision {event.revision} and is still there", row)
                del self._objects[key]
        elif row is None or row.revision < event.revision:
            why = self._broken.get(key, "its row is lost" if row is None else f"its row is of revision {row.revision}")
            self._found(describe(key), f"{why}; revision {event.revision} of it is in the history, nothing is lost")
            bare = event.object
            self._objects[key] = bare
        elif row.revision > event.revision and not self._rejected:
            self._found(describe(key), f"its change at revision {row.revision} is missing in the history")

    def _found(self, what: str, why: str, *, lost: bool = False) -> None:
        self._findings.append(Finding(what, why, lost))

    def _reject(self, what: str, why: str, row: Iterable[Any]) -> None:
        self._rejected.append(Rejected(what, why, tuple(row)))
        self._found(what, why)


def _age(row: ObjectRow) -> int:
    return int(row.revision)


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
    lines = [" ".join(line.split()) for problem in problems for line in problem.splitlines()]
    contents = Contents(version, problems=[Finding("file", line) for line in lines[:_TOLD]])
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


# Whether a data file holds every change that was acknowledged, as far as that can be proven.
#
# Two witnesses: the file itself says since its opening that it runs, so that without its write-ahead log it is
# incomplete; and the marker beside it (``marker``) has the newest acknowledged revision.

_WAYS = "put the missing file back, restore a backup with 'unisono restore FILE', or go on without with"
_ACCEPT = "'unisono up --accept-loss'"


def check(path: Path, judged: Judgement, mark: Mark | None, *, log: bool) -> None:
    """Compare a file that was read with what is known of it.

    Args:
        path: the data file.
        judged: what it holds.
        mark: what the marker beside it says.
        log: whether a write-ahead log was beside it.

    Raises:
        LostWrites: acknowledged changes are missing, or nothing shows that none are.
    """
    own_mark = mark if mark is not None and mark.store == judged.store else None
    if own_mark is not None and own_mark.revision > judged.revision:
        log_name = "" if log else f", and its write-ahead log {path.name}-wal is missing"
        raise LostWrites(
            f"{path} ends at revision {judged.revision}, but changes up to revision {own_mark.revision} were "
            f"acknowledged{log_name}: {_WAYS} {_ACCEPT}."
        )
    if judged.running and not log and own_mark is None:
        raise LostWrites(
            f"{path} was not closed, and its write-ahead log {path.name}-wal is missing; the newest changes, up to "
            f"some thousand, may be lost: {_WAYS} {_ACCEPT}."
        )


def check_empty(path: Path, mark: Mark | None, *, log: bool) -> None:
    """The same where there is no file, or an empty one.

    Raises:
        LostWrites: there was a store.
    """
    state = "is empty" if path.exists() else "is missing"
    if mark is not None and mark.revision:
        raise LostWrites(
            f"{path} {state}, but changes up to revision {mark.revision} were acknowledged: {_WAYS} {_ACCEPT}."
        )
    if log and path.with_name(f"{path.name}-wal").stat().st_size:
        raise LostWrites(f"{path} {state}, but its write-ahead log {path.name}-wal is there: {_WAYS} {_ACCEPT}.")
