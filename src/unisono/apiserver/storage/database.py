"""The SQLite file: schema, integrity, loading, and one transaction per batch of changes.

Only one thread may use a ``Database``. The file is opened in WAL mode with ``synchronous=FULL``: when ``apply``
returns, the batch is on disk. ``locking_mode=EXCLUSIVE`` keeps a second process out.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unisono.apiserver.storage import files, inspection, schema
from unisono.apiserver.storage.inspection import Judgement, inspect, readable
from unisono.apiserver.storage.objects import Event, StoredEntry
from unisono.apiserver.storage.schema import entry_of, event_rows, object_sum
from unisono.gc_pauses import collector_paused

MEMORY = ":memory:"
OTHERWISE = "choose another data directory"
_DELETE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"


@dataclass(slots=True)
class Loaded:
    """What a data file holds: counters, objects, and the kept watch history in order."""

    revision: int = 0
    compacted: int = 0
    objects: list[StoredEntry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Database:
    """The data file at ``path``, or a private one in memory for ``:memory:``."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._connection: sqlite3.Connection | None = None
        self._revision = 0
        self._judged: Judgement | None = None
        self._marker: files.Marker | None = None

    def open(self) -> None:
        """Open or create the file; one that is there is read to its end before anything is changed.

        Raises:
            DamagedStore: the file is damaged; it is as it was.
            LostWrites: it lacks changes that were acknowledged.
            StoreError: it is foreign, newer than this version, in use, or cannot be opened.
        """
        try:
            if self.path != MEMORY:
                with collector_paused():
                    self._inspect(Path(self.path))
            self._connection = self._connect()
            if self.path != MEMORY:
                self._begin(self._connection)
        except sqlite3.Error as error:
            raise files.StoreError(self._explain(error)) from error
        except OSError as error:
            raise files.StoreError(f"{self.path} cannot be opened ({error.strerror}): check its directory") from error

    def load(self) -> Loaded:
        """What ``open`` has read; once."""
        with collector_paused():
            loaded = Loaded() if self._judged is None else _loaded(self._judged)
        self._judged = None
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
                raise files.DiskFullError(f"no room is left on the disk of {self.path}") from error
            raise
        self._revision = events[-1].entry.revision
        if self._marker is not None:
            self._marker.note(self._revision)

    def backup(self, path: Path) -> None:
        """Write a copy of everything to ``path``.

        Raises:
            OSError, sqlite3.Error: there is no copy.
        """
        files.copy_database(self._opened(), path)

    def close(self) -> None:
        """Close the file; the write-ahead log is folded into it."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                if self._marker is not None:
                    # Durable before the log goes.
                    self._marker.sync()
                    self._connection.execute("UPDATE meta SET value = 0 WHERE key = 'running'")
            self._disconnect()
        if self._marker is not None:
            self._marker.close()
            self._marker = None

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _inspect(self, path: Path) -> None:
        """Read what is there; nothing has been changed when this fails."""
        readable(path, OTHERWISE)
        files.finish_swaps(path)
        mark, log = files.read_mark(path), files.beside(path, "-wal").exists()
        if not path.exists() or path.stat().st_size == 0:
            inspection.check_empty(path, mark, log=log)
            # Secrets will be inside; SQLite gives its log the mode of the file.
            path.touch(mode=0o600)
            return
        _, judged = inspect(path, OTHERWISE, thorough=False)
        if judged.findings:
            raise files.DamagedStore(path, judged.findings, len(judged.objects))
        inspection.check(path, judged, mark, log=log)
        self._judged = judged

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, isolation_level=None, timeout=1.0, check_same_thread=False)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                # One transaction: a crash here leaves an empty file, which is created again.
                schema.create(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Migrate, and note in the file itself that it is incomplete without its log from now on."""
        path = Path(self.path)
        try:
            if connection.execute("PRAGMA user_version").fetchone()[0] < schema.SCHEMA_VERSION:
                # For who goes back to the version that wrote it.
                self.backup(files.beside(path, ".schema-1"))
                schema.migrate(connection)
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            if self._judged is not None and meta["revision"] != self._judged.revision:
                raise files.StoreInUse(f"{path} was changed while it was read: {OTHERWISE}")
            self._marker = files.Marker(path, meta["store"])
            self._marker.note(meta["revision"])
            self._marker.sync()
            if not meta["running"]:
                connection.execute("UPDATE meta SET value = 1 WHERE key = 'running'")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            files.sync(path.parent)
        except BaseException as error:
            self.close()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise files.StoreError(
                    f"{path} cannot be opened (no room is left on its disk): free disk space"
                ) from error
            raise

    @staticmethod
    def _write(connection: sqlite3.Connection, events: Sequence[Event], compact_to: int) -> None:
        connection.executemany(schema.PUT_EVENT, event_rows(events))
        last = {event.entry.key: event for event in events}
        connection.executemany(_DELETE, [key for key, event in last.items() if event.type == "DELETED"])
        connection.executemany(
            schema.PUT_OBJECT, [_row(event.entry) for event in last.values() if event.type != "DELETED"]
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
                self._disconnect()

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = self._connect()
            # A commit that failed half-way may turn out complete; what is in memory would then be older than the file.
            (stored_revision,) = connection.execute("SELECT value FROM meta WHERE key = 'revision'").fetchone()
            if stored_revision != self._revision:
                connection.close()
                raise files.StoreError(f"{self.path} has changes that this server does not know: restart it")
            self._connection = connection
        return self._connection

    def _explain(self, error: sqlite3.Error) -> str:
        text = str(error)
        if "locked" in text or "busy" in text:
            return f"{self.path} is in use by another Unisono: stop that one, or {OTHERWISE}"
        return f"{self.path} cannot be opened ({text}): check that its directory exists and is writable"


def _loaded(judged: Judgement) -> Loaded:
    loaded = Loaded(revision=judged.revision, compacted=judged.compacted)
    keys = sorted(judged.objects)
    loaded.objects = [StoredEntry(*judged.objects[key][:5]) for key in keys]
    current = dict(zip(keys, loaded.objects, strict=True))
    earlier: dict[tuple[str, str, str], StoredEntry] = {}
    for row in judged.events:
        newest = current.get(row.key)
        # One copy of the bytes in memory.
        entry = newest if newest is not None and newest.revision == row.revision else entry_of(row)
        previous = earlier.get(entry.key) if row.type != "ADDED" else None
        loaded.events.append(Event(row.type, entry, previous, row.at, row.type == "ADDED" or previous is not None))
        earlier[entry.key] = entry
    return loaded


def _row(entry: StoredEntry) -> tuple[str, str, str, int, bytes, int]:
    return (*entry.key, entry.revision, entry.data, object_sum(*entry.key, entry.revision, entry.data))
