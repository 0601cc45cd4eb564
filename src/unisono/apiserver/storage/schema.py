"""Tables and versions of the data file."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path

from unisono.apiserver.storage.errors import StoreError
from unisono.apiserver.storage.rows import EventRow, ObjectRow, event_sum, object_sum

APPLICATION_ID = 0x554E4953
# 1: as 2, without checksums, the store's number and whether it runs.
SCHEMA_VERSION = 2
_OBJECTS = """
CREATE TABLE objects (
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    revision INTEGER NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (resource, namespace, name)
);"""
_EVENTS = """
CREATE TABLE events (
    revision INTEGER PRIMARY KEY, at REAL NOT NULL, type TEXT NOT NULL,
    resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, sum INTEGER NOT NULL
);"""
_META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
PUT_OBJECT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
PUT_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_OBJECT_COLUMNS = "resource, namespace, name, revision, data"
KEY_QUERY = "SELECT resource, namespace, name, rowid FROM objects INDEXED BY sqlite_autoindex_objects_1"
"""Reads the index of keys alone, in its own order."""
_EVENT_COLUMNS = "revision, at, type, resource, namespace, name, data"


def create(connection: sqlite3.Connection, revision: int = 0) -> None:
    """Make the tables of a new store, whose versions begin above ``revision``, in one transaction.

    Raises:
        sqlite3.Error: nothing was made.

    """
    connection.executescript(
        f"BEGIN EXCLUSIVE;{_OBJECTS}{_EVENTS}{_META}"  # noqa: S608  # nosec B608 # numbers of our own
        f"INSERT INTO meta VALUES ('revision', {revision}), ('compacted', {revision}), ('running', 0), "
        f"('store', {new_store()});{_stamp()}COMMIT;"
    )


def new_store() -> int:
    """A number for a store, so that its marker is not taken for another's."""
    return secrets.randbits(62) | 1


def check_identity(connection: sqlite3.Connection, path: Path | str, otherwise: str) -> int:
    """The schema version of a data file.

    Args:
        connection: to the file.
        path: its name, for messages.
        otherwise: what to do if the file is the wrong one.

    Raises:
        StoreError: it is foreign, or of a newer version.

    """
    application, version = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a Unisono data file: {otherwise}")
    if not 1 <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this Unisono reads versions up to {SCHEMA_VERSION}: "
            f"use the Unisono that wrote it, or {otherwise}"
        )
    return version


def object_query(version: int, *, place: bool = False) -> str:
    """Reads ``ObjectRow``s from a file of a schema version, without its indexes; ``place`` adds their row numbers."""
    columns = f"{_OBJECT_COLUMNS}, {_sum(version)}{', rowid' if place else ''}"
    return f"SELECT {columns} FROM objects NOT INDEXED"  # noqa: S608  # nosec B608 # constants


def event_query(version: int) -> str:
    """Reads ``EventRow``s in the order in which they are stored."""
    return f"SELECT {_EVENT_COLUMNS}, {_sum(version)} FROM events NOT INDEXED"  # noqa: S608  # nosec B608 # constants


def migrate(connection: sqlite3.Connection) -> None:
    """Bring tables of version 1 to this one, in one transaction.

    Raises:
        sqlite3.Error: nothing was changed.

    """
    connection.execute("BEGIN EXCLUSIVE")
    try:
        _copied(connection, "objects", _OBJECTS, object_query(1), PUT_OBJECT, summed_object)
        _copied(connection, "events", _EVENTS, event_query(1), PUT_EVENT, summed_event)
        connection.execute("INSERT INTO meta VALUES ('running', 0), ('store', ?)", (new_store(),))
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _copied(
    connection: sqlite3.Connection,
    table: str,
    ddl: str,
    query: str,
    put: str,
    summed: Callable[[tuple[object, ...]], ObjectRow | EventRow],
) -> None:
    connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    connection.execute(ddl)
    rows = connection.execute(query.replace(f"FROM {table}", f"FROM old_{table}"))
    connection.executemany(put, (summed(row) for row in rows))
    connection.execute(f"DROP TABLE old_{table}")


def summed_object(row: tuple[object, ...]) -> ObjectRow:
    """A row of version 1 with its checksum."""
    bare = ObjectRow(*row)
    return bare._replace(sum=object_sum(*bare[:5]))


def summed_event(row: tuple[object, ...]) -> EventRow:
    """As ``summed_object``, for an event."""
    bare = EventRow(*row)
    return bare._replace(sum=event_sum(object_sum(*bare.object[:5]), bare.type, bare.at))


def _sum(version: int) -> str:
    return "sum" if version > 1 else "NULL"


def _stamp() -> str:
    return f"PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {SCHEMA_VERSION};"
