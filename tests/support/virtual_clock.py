"""A clock that moves only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections.abc import Callable
from typing import Any

# Rounds of the event loop after each step of time: enough for chains of callbacks and awaits to settle.
SETTLE_ROUNDS = 50
# Those of the test runner.
_THREADS = threading.active_count()
_SOON_SECONDS = 0.01


async def settle(rounds: int = SETTLE_ROUNDS) -> None:
    """Let everything that can run, run."""
    loop: Any = asyncio.get_running_loop()
    for _ in range(rounds):
        await asyncio.sleep(0)
        if _is_over(loop):
            return


def _is_over(loop: Any) -> bool:
    """Whether nothing is left to run, and neither a thread, a connection nor a timer can bring anything soon.

    Most rounds would be empty: they took half the time of tests that move a clock.
    """
    if getattr(loop, "_ready", True) or loop._default_executor is not None or threading.active_count() > _THREADS:
        return False
    if loop._scheduled and loop._scheduled[0].when() < loop.time() + _SOON_SECONDS:
        return False
    return len(loop._selector.get_map()) <= 1  # the loop's own pipe


class VirtualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback, self.cancelled = callback, False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """Implements ``unisono.kube.clock.Clock``."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._start, self._elapsed = start, 0.0
        self._heap: list[tuple[float, int, VirtualTimer]] = []
        self._order = itertools.count()

    def time(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def jump(self, seconds: float) -> None:
        """Set the wall clock, as a machine does that wakes up or hears of the right time; timers do not notice."""
        self._start += seconds

    async def pause(self, seconds: float) -> None:
        """The process is stopped (SIGSTOP) for so long: what was due meanwhile runs afterwards, all of it late."""
        await settle()
        self._elapsed += seconds
        await self.advance(0)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        heapq.heappush(self._heap, (self._elapsed + max(0.0, seconds), next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if waiter.done() else waiter.set_result(None))
        try:
            await waiter
        finally:
            timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Move time forward, running what is due in order and letting the loop settle after each."""
        end = self._elapsed + seconds
        await settle()
        while self._heap and self._heap[0][0] <= end:
            due, _, timer = heapq.heappop(self._heap)
            self._elapsed = max(self._elapsed, due)
            if not timer.cancelled:
                timer.callback()
                await settle()
        self._elapsed = end
        await settle()
