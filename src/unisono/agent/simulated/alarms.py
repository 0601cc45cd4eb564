"""One timer for the ends of all simulated pods."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from unisono.kube.clock import Clock, Timer


@dataclass(slots=True)
class Alarms:
    """One timer for all pods: a heap of (time, key)."""

    clock: Clock
    wake: Callable[[str], None]
    heap: list[tuple[float, int, str]] = field(default_factory=list)
    serial: itertools.count[int] = field(default_factory=itertools.count)
    timer: Timer | None = None

    def at(self, when: float, key: str) -> None:
        """Wake ``key`` at ``when``."""
        first = not self.heap or when < self.heap[0][0]
        heapq.heappush(self.heap, (when, next(self.serial), key))
        if first:
            self._arm()

    def _arm(self) -> None:
        self.close()
        if self.heap:
            self.timer = self.clock.call_later(max(0.0, self.heap[0][0] - self.clock.time()), self._ring)

    def _ring(self) -> None:
        self.timer = None
        while self.heap and self.heap[0][0] <= self.clock.time():
            self.wake(heapq.heappop(self.heap)[2])
        self._arm()

    def close(self) -> None:
        """Stop waking callers."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
