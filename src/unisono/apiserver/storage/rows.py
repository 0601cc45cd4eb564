"""Rows of the data file: their checksums, and what each must be to be believed. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from unisono.api.kinds import ALL_KINDS, find
from unisono.apiserver.storage.entry import Entry, Event, Key

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
        known: int = stored.sum
    else:
        why = wrong_object(ObjectRow(*bare), summed=False)
        if why is not None or not summed:
            return why
        known = object_sum(*bare)
    return None if total == event_sum(known, kind, at) else "its checksum does not match"


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
    found = find(api_version, kind)
    if found is not None or resource in _NAMES:
        return found is not None and found.resource == resource
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


def entry_of(row: ObjectRow | EventRow) -> Entry:
    """The entry that a believed row stores."""
    return Entry(*row.key, row.revision, row.data)
