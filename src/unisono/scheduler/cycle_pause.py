"""How long the scheduler waits between two cycles: for a change, a waiting time that ends, and the end of a burst."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from unisono.cluster.recent import Setback
from unisono.engine.decisions import Bind
from unisono.kube.clock import Clock

# What the scheduler asks of those who carry out its decisions.


class Placing(Protocol):
    """Carries out binds; `Binder` is one."""

    def submit(self, binds: Iterable[Bind]) -> list[Bind]:
        """Assume and send the binds of a cycle; returns those that were sent."""
        ...

    def limit(self, concurrency: int) -> None:
        """Bound the binds under way at a time."""
        ...

    def hold(self, job: str, least: float = 0.0) -> None:
        """Let the job wait, ``least`` seconds or more."""
        ...

    def setbacks(self) -> dict[str, Setback]:
        """Jobs whose binds failed lately."""
        ...

    def next_release(self) -> float | None:
        """Monotonic time at which the next waiting job may go on."""
        ...

    def busy(self, job: str) -> bool:
        """Whether binds of the job are under way."""
        ...

    async def close(self) -> None:
        """Stop."""
        ...


class Evicting(Protocol):
    """Carries out evictions; `Evictor` is one."""

    def submit(
        self, victims: Iterable[tuple[str, str, str]], action: str, why: str, beneficiary: str = "", notice: float = 0.0
    ) -> int:
        """Evict pods (namespace, name, uid) in the background; returns how many evictions were sent."""
        ...

    def follow_notices(self) -> float | None:
        """Carry out what pods were told, or take it back; returns when the next is due, seconds since the epoch."""
        ...

    async def close(self) -> None:
        """Stop."""
        ...


class Pause:
    """The time between two cycles. Times are in seconds."""

    def __init__(
        self,
        clock: Clock,
        arrivals: Callable[[], int],
        shared: Callable[[], bool],
        period: float,
        debounce: float,
        share_debounce: float,
        gather: float,
    ) -> None:
        """Make one.

        Args:
            clock: time.
            arrivals: how many pods and PodGroups have come so far.
            shared: whether several queues share the cluster.
            period: longest pause.
            debounce: between a change and the cycle.
            share_debounce: the same where the cluster is shared.
            gather: longest time for which a burst of arrivals is awaited.
        """
        self._clock, self._arrivals, self._shared = clock, arrivals, shared
        self._period, self._gather_seconds = period, gather
        self._debounce, self._share_debounce = debounce, share_debounce
        self._woken = asyncio.Event()
        self._arrived = 0

    def wake(self) -> None:
        """End the pause; it goes on for a moment, to take in what comes together."""
        self._woken.set()

    async def until_due(self, due_at: float, busy_seconds: float) -> None:
        """Until something changes, ``due_at`` is reached, or the period is over; then until a burst is over.

        Args:
            due_at: on the steady clock.
            busy_seconds: length of the last cycle.
        """
        wait = min(self._period, max(0.0, due_at - self._clock.monotonic()))
        timer = self._clock.call_later(wait, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
        await self._gather(busy_seconds)
        self._woken.clear()

    async def _gather(self, busy_seconds: float) -> None:
        """A moment more, and more of them while pods and PodGroups keep arriving.

        Shares are decided among those who are there: deciding in the middle of a burst would give it all to the first.
        Where there is but one queue nothing is shared, and no job needs to wait for that.
        """
        shared = self._shared()
        end = self._clock.monotonic() + self._gather_seconds
        # Where cycles are long, half of the time is left to writers and watches.
        pause = max(self._debounce, min(busy_seconds, self._gather_seconds))
        while True:
            arrivals = self._arrivals()
            fresh, self._arrived = arrivals != self._arrived, arrivals
            await self._clock.sleep(max(pause, self._share_debounce) if fresh and shared else pause)
            if self._arrivals() == self._arrived or self._clock.monotonic() >= end:
                return
