"""The event heap of a virtual clock; events of one moment come in the order in which they were pushed."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Any


class EventHeap:
    """Times with what happens then.

    Attributes:
        now: time of the moment that was taken last.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, str, Any]] = []
        self._serial = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def time(self) -> float:
        """Time of the next event."""
        return self._heap[0][0]

    def push(self, at: float, kind: str, what: Any) -> None:
        """Let something happen at ``at``."""
        heapq.heappush(self._heap, (at, next(self._serial), kind, what))

    def moment(self) -> Iterator[tuple[str, Any]]:
        """Take the events of the next moment, those included that are pushed for it meanwhile."""
        now = self.now = self.time
        while self._heap and self._heap[0][0] <= now:
            _, _, kind, what = heapq.heappop(self._heap)
            yield kind, what
