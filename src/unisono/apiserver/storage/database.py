"""The SQLite file: schema, integrity, loading, and one transaction per batch of changes.

Only one thread may use a ``Database``. The file is opened in WAL mode with ``synchronous=FULL``: when ``apply``
returns, the batch is on disk. ``locking_mode=EXCLUSIVE`` keeps a second process out.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unisono.apiserver.storage.entry import Entry, Event
from unisono.errors import UnisonoError

MEMORY = ":memory:"
APPLICATION_ID = 0x554E4953
SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);
CREATE TABLE events (
    revision INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL,
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO meta VALUES ('revision', 0), ('compacted', 0);
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"
_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"


class StoreError(UnisonoError):
    """The data file cannot be used; the message names it and says what to do."""


class DiskFullError(StoreError):
    """There is no room for a change; nothing of it was stored, and the file is as it was."""


@dataclass(slots=True)
class Loaded:
    """What a data file holds: counters, objects, and the kept watch history in order."""

    revision: int = 0
    compacted: int = 0
    objects: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Database:
    """The data file at ``path``, or a private one in memory for ``:memory:``."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._connection: sqlite3.Connection | None = None
        self._revision = 0

    def open(self) -> None:
        """Open or create the file and check that it is whole.

        Raises:
            StoreError: the file is foreign, damaged, newer than this version, in use, or cannot be opened.

        """
        try:
            self._connection = self._connect()
        except sqlite3.Error as error:
            raise StoreError(self._explain(error)) from error
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened ({error.strerror}): check its directory") from error

    def load(self) -> Loaded:
        """Read everything.

        Raises:
            StoreError: the file is damaged.

        """
        try:
            loaded = self._load(self._opened())
        except sqlite3.Error as error:
            raise StoreError(self._explain(error)) from error
        self._revision = loaded.revision
        return loaded

    def apply(self, events: Sequence[Event], *, compact_to: int = 0) -> None:
        """Make ``events`` durable in one transaction, all or none.

        Args:
            events: changes in the order of their revisions; at least one.
            compact_to: drop history up to this revision; 0 drops nothing.

        Raises:
            DiskFullError: nothing was stored, for want of room; the connection is usable again.
            sqlite3.Error: nothing was stored; the connection is usable again.
            StoreError: the file is not as the last transaction left it; nothing can be stored until it is read again.

        """
        connection = self._opened()
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._write(connection, events, compact_to)
            connection.execute("COMMIT")
        except Exception as error:
            self._recover(connection)
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise DiskFullError(f"no room is left on the disk of {self.path}") from error
            raise
        self._revision = events[-1].entry.revision

    def backup(self, path: Path) -> None:
        """Write a copy of everything to ``path``.

        Raises:
            OSError, sqlite3.Error: there is no copy.

        """
        # Not at the top: the module of backups builds on this one.
        from unisono.apiserver.storage.backup import copy_database

        copy_database(self._opened(), path)

    def close(self) -> None:
        """Close the file; the write-ahead log is folded into it."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _connect(self) -> sqlite3.Connection:
        if self.path != MEMORY:
            # Secrets are inside; SQLite gives its log the mode of the file.
            Path(self.path).touch(mode=0o600, exist_ok=True)
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=1.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            # Identity first: changing the journal mode would already write to somebody else's file.
            self._prepare(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        found = _pragma(connection, "application_id"), _pragma(connection, "user_version")
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if found == (0, 0) and empty:
            # One script is one transaction: a crash here leaves an empty file, which is created again.
            connection.executescript(
                f"BEGIN EXCLUSIVE;{_SCHEMA}PRAGMA application_id = {APPLICATION_ID};"
                f"PRAGMA user_version = {SCHEMA_VERSION};COMMIT;"
            )
            return
        if found[0] != APPLICATION_ID:
            raise StoreError(f"{self.path} is not a Unisono data file: choose another data directory")
        if found[1] != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema version {found[1]}, this Unisono reads version {SCHEMA_VERSION}: "
                "use the Unisono that wrote it, or choose another data directory"
            )
        problems = [row[0] for row in connection.execute("PRAGMA quick_check(3)") if row[0] != "ok"]
        if problems:
            raise StoreError(self._damaged("; ".join(" ".join(problem.split()) for problem in problems)))

    def _load(self, connection: sqlite3.Connection) -> Loaded:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        loaded = Loaded(revision=meta["revision"], compacted=meta["compacted"])
        query = "SELECT resource, namespace, name, revision, data FROM objects ORDER BY resource, namespace, name"
        loaded.objects = [Entry(*row) for row in connection.execute(query)]
        current = {entry.key: entry for entry in loaded.objects}
        earlier: dict[tuple[str, str, str], Entry] = {}
        query = "SELECT revision, at, type, resource, namespace, name, data FROM events ORDER BY revision"
        for revision, at, kind, resource, namespace, name, data in connection.execute(query):
            entry = Entry(resource, namespace, name, revision, data)
            newest = current.get(entry.key)
            if newest is not None and newest.revision == revision:
                entry = newest  # one copy of the bytes in memory
            previous = earlier.get(entry.key) if kind != "ADDED" else None
            loaded.events.append(Event(kind, entry, previous, at, kind == "ADDED" or previous is not None))
            earlier[entry.key] = entry
        return loaded

    @staticmethod
    def _write(connection: sqlite3.Connection, events: Sequence[Event], compact_to: int) -> None:
        connection.executemany(_EVENT, _event_rows(events))
        last = {event.entry.key: event for event in events}
        connection.executemany(_DELETE, [key for key, event in last.items() if event.type == "DELETED"])
        connection.executemany(
            _PUT,
            [(*key, e.entry.revision, e.entry.data) for key, e in last.items() if e.type != "DELETED"],
        )
        connection.execute("UPDATE meta SET value = ? WHERE key = 'revision'", (events[-1].entry.revision,))
        if compact_to:
            connection.execute("DELETE FROM events WHERE revision <= ?", (compact_to,))
            connection.execute("UPDATE meta SET value = ? WHERE key = 'compacted'", (compact_to,))

    def _recover(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection that cannot roll back is of no use; a fresh one recovers from the log.
            if self.path != MEMORY:
                self.close()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = self._connect()
            # A commit that failed half-way may turn out complete; what is in memory would then be older than the file.
            (found,) = connection.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
            if found != self._revision:
                connection.close()
                raise StoreError(f"{self.path} has changes that this server does not know: restart it")
            self._connection = connection
        return self._connection

    def _explain(self, error: sqlite3.Error) -> str:
        text = str(error)
        if "locked" in text or "busy" in text:
            return f"{self.path} is in use by another Unisono: stop that one, or choose another data directory"
        if "not a database" in text or "encrypted" in text:
            return f"{self.path} is not a Unisono data file: choose another data directory"
        if isinstance(error, sqlite3.OperationalError) and "malformed" not in text:
            return f"{self.path} cannot be opened ({text}): check that its directory exists and is writable"
        return self._damaged(text)

    def _damaged(self, why: str) -> str:
        return f"{self.path} is damaged ({why}): move it away, or put back a copy that is whole"


def _event_rows(events: Iterable[Event]) -> list[tuple[int, float, str, str, str, str, bytes]]:
    return [(e.entry.revision, e.at, e.type, *e.entry.key, e.entry.data) for e in events]


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
