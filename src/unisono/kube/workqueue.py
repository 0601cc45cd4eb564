"""Queue of keys to reconcile: a key waits once, runs once at a time, and comes back later when asked.

While a worker holds a key, further ``add`` calls are remembered and the key is queued again on ``done``. So
two workers never see one key at the same time and no change is lost.

Namespaces take turns: of each one in turn, workers get the key that has waited longest. So a key waits for at most one
key of each other namespace and for those of its own, however many keys another namespace has.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from unisono.kube.clock import SYSTEM_CLOCK, Clock, Timer
from unisono.kube.pace import Backoff


class QueueClosed(Exception):
    """``get`` on a closed queue."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """What a queue holds now and did so far.

    Attributes:
        ready: keys that a worker could take.
        processing: keys that workers hold.
        delayed: keys that wait for their time.
        failing: keys with at least one failure since the last ``forget``.
        worst_failures: largest number of failures in a row of one key.
        adds: keys queued since the start.
        retries: rate-limited re-queues since the start.
    """

    ready: int
    processing: int
    delayed: int
    failing: int
    worst_failures: int
    adds: int
    retries: int


class WorkQueue:
    """Keys to work on, each at most once in the queue and at most once in work."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, backoff: Backoff | None = None) -> None:
        self._clock = clock
        self._backoff = backoff or Backoff()
        # By namespace, those whose turn comes next first: keys that a worker could take, oldest first.
        self._ready: dict[str, deque[str]] = {}
        self._dirty: set[str] = set()
        self._processing: set[str] = set()
        self._failures: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._timer: tuple[float, Timer] | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._adds = 0
        self._retries = 0

    def __len__(self) -> int:
        """Keys that a worker could take now."""
        return sum(map(len, self._ready.values()))

    def add(self, key: str) -> None:
        """Queue ``key`` now; no effect when it already waits."""
        if self._closed or key in self._dirty:
            return
        self._adds += 1
        self._dirty.add(key)
        if key not in self._processing:
            self._push(key)

    def add_after(self, key: str, seconds: float) -> None:
        """Queue ``key`` after ``seconds``; of several delays for one key the shortest counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        scheduled = self._due.get(key)
        if scheduled is not None and scheduled <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        self._arm()

    def add_rate_limited(self, key: str, at_least: float = 0.0) -> float:
        """Count a failure of ``key`` and queue it after its back-off; returns the delay in seconds."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        self._retries += 1
        delay = max(self._backoff.delay(failures), at_least)
        self.add_after(key, delay)
        return delay

    def forget(self, key: str) -> None:
        """Clear the failures of ``key``: its next back-off starts from the beginning."""
        self._failures.pop(key, None)

    def failures(self, key: str) -> int:
        """Failures in a row of ``key``."""
        return self._failures.get(key, 0)

    async def get(self) -> str:
        """Wait for a key; the caller must call ``done`` with it. Raises QueueClosed once closed."""
        while not self._ready:
            if self._closed:
                raise QueueClosed
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # The wake-up that this getter received must not be lost.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise
        key = self._pop()
        self._dirty.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: str) -> None:
        """The worker is through with ``key``; it is queued again if it was added meanwhile."""
        self._processing.discard(key)
        if key in self._dirty and not self._closed:
            self._push(key)

    async def work(self, step: Callable[[str], Awaitable[None]]) -> None:
        """Be a worker: hand each key to ``step``, until the queue is closed. What ``step`` raises ends the worker."""
        with suppress(QueueClosed):
            while True:
                key = await self.get()
                try:
                    await step(key)
                finally:
                    self.done(key)

    def close(self) -> None:
        """Wake every getter with QueueClosed; later adds are dropped."""
        self._closed = True
        if self._timer:
            self._timer[1].cancel()
            self._timer = None
        self._ready.clear()
        while self._getters:
            self._wake()

    def statistics(self) -> QueueStatistics:
        """Sizes now and totals since the start."""
        return QueueStatistics(
            ready=len(self),
            processing=len(self._processing),
            delayed=len(self._due),
            failing=len(self._failures),
            worst_failures=max(self._failures.values(), default=0),
            adds=self._adds,
            retries=self._retries,
        )

    def _push(self, key: str) -> None:
        self._ready.setdefault(key.partition("/")[0] if "/" in key else "", deque()).append(key)
        self._wake()

    def _pop(self) -> str:
        """The next key of the namespace whose turn it is, which then stands behind all others."""
        namespace = next(iter(self._ready))
        keys = self._ready.pop(namespace)
        key = keys.popleft()
        if keys:
            self._ready[namespace] = keys
        return key

    def _wake(self) -> None:
        while self._getters:
            waiter = self._getters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self) -> None:
        if not self._heap or self._closed:
            return
        due = self._heap[0][0]
        if self._timer:
            if self._timer[0] <= due:
                return
            self._timer[1].cancel()
        timer = self._clock.call_later(max(0.0, due - self._clock.monotonic()), self._fire)
        self._timer = (due, timer)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._heap and self._heap[0][0] <= now:
            due, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._arm()
