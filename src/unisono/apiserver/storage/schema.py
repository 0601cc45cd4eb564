"""Tables, versions and rows of the data file: what each row must be to be believed."""

from __future__ import annotations

import secrets
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unisono.api.kinds import ALL_KINDS, find
from unisono.apiserver.storage.files import StoreError
from unisono.apiserver.storage.objects import Event, Key, StoredEntry

EVENT_TYPES = ("ADDED", "MODIFIED", "DELETED")


class ObjectRow(NamedTuple):
    """A row of ``objects``; of a damaged file each value may be of any type. ``sum`` is None in schema version 1."""

    resource: Any
    namespace: Any
    name: Any
    revision: Any
    data: Any
    sum: Any = None

    @property
    def key(self) -> Key:
        """``(resource, namespace, name)``."""
        return self.resource, self.namespace, self.name


class EventRow(NamedTuple):
    """A row of ``events``, as ``ObjectRow``."""

    revision: Any
    at: Any
    type: Any
    resource: Any
    namespace: Any
    name: Any
    data: Any
    sum: Any = None

    @property
    def key(self) -> Key:
        """``(resource, namespace, name)``."""
        return self.resource, self.namespace, self.name

    @property
    def object(self) -> ObjectRow:
        """The object after the change, as a row of ``objects`` would hold it."""
        return ObjectRow(*self.key, self.revision, self.data)


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815  # as JSON has it


class _Head(msgspec.Struct):
    metadata: _Meta
    apiVersion: str = ""  # noqa: N815
    kind: str = ""


_HEAD = msgspec.json.Decoder(_Head)


def object_sum(resource: str, namespace: str, name: str, revision: int, data: bytes) -> int:
    """CRC-32 over key, revision and value: 0..2^32-1.

    CRC-32 takes 0.9 us for an object of 2 kB, BLAKE2b with 8 bytes 3 us (``benchmarks/store_checksums.py``). Against
    accidents it is enough: one damaged row of four thousand million passes; against intent neither helps without a key.
    """
    key = f"{resource}\0{namespace}\0{name}\0{revision}\0"
    return zlib.crc32(data, zlib.crc32(key.encode("utf-8", "surrogateescape")))


def event_sum(of_object: int, kind: str, at: float) -> int:
    """The checksum of an event: that of its object, carried on over type and time."""
    return zlib.crc32(f"{kind}\0{float(at)!r}".encode(errors="surrogateescape"), of_object)


def event_rows(events: Sequence[Event]) -> list[EventRow]:
    """Events as they are stored."""
    rows = []
    for event in events:
        entry = event.entry
        total = event_sum(object_sum(*entry.key, entry.revision, entry.data), event.type, event.at)
        rows.append(EventRow(entry.revision, event.at, event.type, *entry.key, entry.data, total))
    return rows


def wrong_object(row: ObjectRow, *, summed: bool = True) -> str | None:
    """Why ``row`` cannot be believed; None when it can.

    Args:
        row: as read.
        summed: whether it has a checksum (from schema version 2 on).
    """
    resource, namespace, name, revision, data, total = row
    if not (
        type(resource) is str
        and type(namespace) is str
        and type(name) is str
        and type(revision) is int
        and type(data) is bytes
    ):
        return "its row has values of wrong types"
    if summed and total != object_sum(resource, namespace, name, revision, data):
        return "its checksum does not match"
    return _wrong_value(row)


def wrong_event(row: EventRow, *, summed: bool = True, stored: ObjectRow | None = None) -> str | None:
    """As ``wrong_object``, for an event.

    Args:
        row: as read.
        summed: as for ``wrong_object``.
        stored: a believed row of ``objects``; where it is the object of the event, its checksum and value hold.
    """
    revision, at, kind, *key, data, total = row
    if not isinstance(at, int | float) or kind not in EVENT_TYPES:
        return "its row has values of wrong types"
    bare = (*key, revision, data)
    if stored is not None and summed and bare == stored[:5]:
        checksum: int = stored.sum
    else:
        why = wrong_object(ObjectRow(*bare), summed=False)
        if why is not None or not summed:
            return why
        checksum = object_sum(*bare)
    return None if total == event_sum(checksum, kind, at) else "its checksum does not match"


def _wrong_value(row: ObjectRow) -> str | None:
    try:
        head = _HEAD.decode(row.data)
    except msgspec.DecodeError as error:
        return f"its value is not a JSON object with metadata ({error})"
    meta = head.metadata
    if meta.name != row.name or meta.namespace not in ("", row.namespace):
        return f"its value is that of {describe((row.resource, meta.namespace, meta.name))}"
    if meta.resourceVersion not in ("", str(row.revision)):
        return f"its value has resourceVersion {meta.resourceVersion}, its row {row.revision}"
    if head.kind and not _belongs(head.apiVersion, head.kind, row.resource):
        return f"its value is of kind {head.kind} ({head.apiVersion})"
    return None


@lru_cache(maxsize=1024)
def _belongs(api_version: str, kind: str, resource: str) -> bool:
    builtin_kind = find(api_version, kind)
    if builtin_kind is not None or resource in _NAMES:
        return builtin_kind is not None and builtin_kind.resource == resource
    # A kind of a user's own definition: its plural and group are the resource.
    return api_version.rpartition("/")[0] == resource.partition(".")[2]


_NAMES = {kind.resource: kind.kind for kind in ALL_KINDS}


def kind_of(resource: str) -> str:
    """``ConfigMap``; the resource's name where the kind is a user's own."""
    return _NAMES.get(resource, resource)


def describe(key: Key) -> str:
    """``ConfigMap default/a``, ``Namespace default``."""
    resource, namespace, name = (str(part).encode(errors="replace").decode() for part in key)
    return f"{kind_of(resource)} {namespace}/{name}" if namespace else f"{kind_of(resource)} {name}"


def entry_of(row: ObjectRow | EventRow) -> StoredEntry:
    """The entry that a believed row stores."""
    return StoredEntry(*row.key, row.revision, row.data)


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
