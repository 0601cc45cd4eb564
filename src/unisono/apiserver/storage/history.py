"""The recent events of one resource, which watches read by position: a slow watcher costs no memory."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from unisono.apiserver.storage.entry import Event


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
