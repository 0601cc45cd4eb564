"""Evictions of the last day, so that limits on how many there may be in a while can be counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

KEPT_SECONDS = 86_400.0
"""Older ones are forgotten: no limit looks further back."""


@dataclass(frozen=True, slots=True)
class PastEviction:
    """One eviction that was decided and has not failed.

    Attributes:
        time: when it was decided, seconds since the epoch.
        pod, uid: of the pod, ``namespace/name``.
        job: key of its PodGroup.
        queue: its queue at that time.

    """

    time: float
    pod: str
    uid: str
    job: str
    queue: str


class EvictionLog:
    """Evictions in the order in which they were decided."""

    def __init__(self) -> None:
        self._entries: deque[PastEviction] = deque()

    def note(self, eviction: PastEviction) -> None:
        """Take in one more; it is the newest."""
        self._entries.append(eviction)
        while self._entries and self._entries[0].time < eviction.time - KEPT_SECONDS:
            self._entries.popleft()

    def strike(self, uid: str) -> None:
        """The eviction of this pod has failed: it does not count."""
        found = next((entry for entry in reversed(self._entries) if entry.uid == uid), None)
        if found is not None:
            self._entries.remove(found)

    def since(self, time: float) -> Iterable[PastEviction]:
        """Those at ``time`` or later, newest first."""
        for entry in reversed(self._entries):
            if entry.time < time:
                return
            yield entry

    def __len__(self) -> int:
        return len(self._entries)
