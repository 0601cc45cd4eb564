"""Stored objects in memory: entries, the objects of one resource, and the recent changes that watches read."""

from __future__ import annotations

import asyncio
import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

# One stored object and one change of it, as the store keeps them in memory: encoded, with lazily decoded facts.

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Key = tuple[str, str, str]


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_LABELS = msgspec.json.Decoder(_Labelled)
_NONE: dict[str, str] = {}


class StoredEntry:
    """An encoded object under its key and revision; never changed, only replaced."""

    __slots__ = ("_labels", "data", "fields", "name", "namespace", "resource", "revision")

    def __init__(self, resource: str, namespace: str, name: str, revision: int, data: bytes) -> None:
        self.resource, self.namespace, self.name = resource, namespace, name
        self.revision, self.data = revision, data
        self._labels: dict[str, str] | None = None
        # Filled by field_selector.fields_of when a selector first asks, so that 200 watchers decode an event once.
        self.fields: tuple[str, ...] | None = None

    @property
    def key(self) -> Key:
        """``(resource, namespace, name)``; the namespace of cluster-scoped objects is empty."""
        return self.resource, self.namespace, self.name

    @property
    def labels(self) -> dict[str, str]:
        """``metadata.labels``, decoded on first use."""
        if self._labels is None:
            self._labels = _LABELS.decode(self.data).metadata.labels or _NONE
        return self._labels


class Event(NamedTuple):
    """One committed change.

    Attributes:
        type: what happened to the object.
        entry: the object after the change; for DELETED its last state, under the revision of the deletion.
        previous: the object before the change; None for ADDED.
        at: wall clock seconds.
        complete: False when ``previous`` is unknown (history that was read back after a restart).
    """

    type: ChangeType
    entry: StoredEntry
    previous: StoredEntry | None
    at: float
    complete: bool = True


# The recent events of one resource, which watches read by position: a slow watcher costs no memory.


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept.

    Of each resource at least ``events``, and all younger than ``seconds`` up to ``max_bytes``; of all resources
    together at most ``most_bytes``, in memory and on the disk: beyond that the oldest events go, whatever their number,
    of the resource with the largest history.
    """

    events: int = 10_000
    seconds: float = 300.0
    max_bytes: int = 32 * 1024 * 1024
    most_bytes: int = 256 * 1024 * 1024


class History:
    """Events in the order of their revisions; positions count from the first event ever appended.

    ``compacted`` is the revision up to which events may have been dropped.
    """

    def __init__(self, retention: Retention, compacted: int) -> None:
        self._retention = retention
        self._events: list[Event] = []
        self._dropped = 0
        self._bytes = 0
        self.compacted = compacted

    def __len__(self) -> int:
        return len(self._events)

    @property
    def size(self) -> int:
        """Bytes of the events' objects."""
        return self._bytes

    @property
    def end(self) -> int:
        """Position after the newest event."""
        return self._dropped + len(self._events)

    def position_after(self, revision: int) -> int | None:
        """Position of the first event newer than ``revision``; None when it may have been dropped."""
        if revision < self.compacted:
            return None
        index = bisect.bisect_right(self._events, revision, key=lambda event: event.entry.revision)
        return self._dropped + index

    def read(self, position: int, limit: int) -> Sequence[Event] | None:
        """Up to ``limit`` events from ``position`` on; None when they have been dropped."""
        start = position - self._dropped
        if start < 0:
            return None
        return self._events[start : start + limit]

    def append(self, event: Event) -> None:
        """Add the newest event and drop what need not be kept."""
        self._events.append(event)
        self._bytes += len(event.entry.data)
        # Dropping in chunks keeps the cost of moving the list small.
        if len(self._events) >= self._retention.events + self._retention.events // 8 + 1:
            self._drop(event.at)

    def shrink(self, size: int) -> None:
        """Drop the oldest events until the others have at most ``size`` bytes; the newest one stays."""
        count = 0
        while self._bytes > size and count < len(self._events) - 1:
            self._bytes -= len(self._events[count].entry.data)
            count += 1
        self._cut(count)

    def _drop(self, now: float) -> None:
        keep, count = self._retention, 0
        while len(self._events) - count > keep.events:
            event = self._events[count]
            if now - event.at < keep.seconds and self._bytes <= keep.max_bytes:
                break
            self._bytes -= len(event.entry.data)
            count += 1
        self._cut(count)

    def _cut(self, count: int) -> None:
        if count:
            self.compacted = self._events[count - 1].entry.revision
            del self._events[:count]
            self._dropped += count


# The committed objects of one resource, with their history and the signal that wakes watches.


class Collection:
    """Entries by key; sorted views are kept until a change."""

    def __init__(self, history: History, loop: asyncio.AbstractEventLoop) -> None:
        self.history = history
        self._loop = loop
        self._entries: dict[Key, StoredEntry] = {}
        self._views: dict[str | None, tuple[StoredEntry, ...]] = {}
        self._changed: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> StoredEntry | None:
        """The entry under ``key``."""
        return self._entries.get(key)

    def put(self, entry: StoredEntry) -> None:
        """Add or replace."""
        self._entries[entry.key] = entry
        self._forget(entry.namespace)

    def remove(self, key: Key) -> None:
        """Remove, if there."""
        self._entries.pop(key, None)
        self._forget(key[1])

    def sorted(self, namespace: str | None) -> Sequence[StoredEntry]:
        """Entries of one namespace, or of all, by namespace and name; never changed afterwards."""
        view = self._views.get(namespace)
        if view is None:
            entries = (e for e in self._entries.values() if namespace is None or e.namespace == namespace)
            view = tuple(sorted(entries, key=lambda entry: entry.key))
            if view:  # an empty view is cheap, and anybody may ask for any namespace name
                self._views[namespace] = view
        return view

    def changed(self) -> asyncio.Future[None]:
        """Resolves at the next change; shared, so do not cancel it."""
        if self._changed is None:
            self._changed = self._loop.create_future()
        return self._changed

    def wake(self) -> None:
        """Wake all who wait for a change."""
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    def _forget(self, namespace: str) -> None:
        self._views.pop(namespace, None)
        self._views.pop(None, None)


# How many bytes the objects of each namespace take, kept current with every change that is queued.


class NamespaceSizes:
    """Stored bytes by namespace, changes on their way to the disk included; cluster-scoped objects count as ``""``."""

    def __init__(self) -> None:
        self._bytes: defaultdict[str, int] = defaultdict(int)

    def of(self, namespace: str) -> int:
        """Bytes of all objects of the namespace, as they are encoded in the store."""
        return self._bytes.get(namespace, 0)

    def follow(self, event: Event) -> None:
        """Take in a change."""
        namespace = event.entry.namespace
        after = 0 if event.type == "DELETED" else len(event.entry.data)
        left = self._bytes[namespace] + after - (len(event.previous.data) if event.previous else 0)
        if left:
            self._bytes[namespace] = left
        else:
            del self._bytes[namespace]

    def count(self, entries: Iterable[StoredEntry]) -> None:
        """Begin with these objects."""
        self._bytes.clear()
        for entry in entries:
            self._bytes[entry.namespace] += len(entry.data)
