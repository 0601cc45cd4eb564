"""Events live for an hour after they were last seen, whatever the machine's clock does in between."""

from __future__ import annotations

import asyncio

import structlog

from unisono.api.core import Event
from unisono.api.kinds import EVENTS
from unisono.api.times import time_or
from unisono.apiserver import encoding
from unisono.apiserver.operations import deletion
from unisono.apiserver.operations.context import Context
from unisono.apiserver.types import DeleteOptions
from unisono.errors import ApiError
from unisono.kube.clock import SYSTEM_CLOCK, Clock

EVENT_SECONDS = 3600.0
PERIOD_SECONDS = 60.0
# Where the wall clock goes so much further than the steady one, it was set, or the machine slept.
_JUMP_SECONDS = 30.0
_log = structlog.get_logger(__name__)


class EventExpiry:
    """Deletes old events once a minute."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._clock = context, clock
        self._task: asyncio.Task[None] | None = None
        self._wall, self._steady = context.clock(), clock.monotonic()
        self._ahead, self._until = 0.0, 0.0

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run(), name="event expiry")

    async def stop(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def sweep(self) -> int:
        """Delete what is too old; answers how many."""
        self._look_at_clocks()
        oldest = self._wall - EVENT_SECONDS - self._ahead
        entries = self._context.store.scan(EVENTS.resource)
        old = [entry for entry in entries if last_seen(encoding.read(EVENTS, entry.data)) < oldest]
        await deletion.delete_all(self._context, EVENTS, old, DeleteOptions())
        return len(old)

    def _look_at_clocks(self) -> None:
        """Take a jump of the wall clock as no time at all: events from before it keep the rest of their hour."""
        wall, steady = self._context.clock(), self._clock.monotonic()
        jump = (wall - self._wall) - (steady - self._steady)
        if steady >= self._until:
            self._ahead = 0.0  # who is left was seen after the last jump
        if abs(jump) > _JUMP_SECONDS:
            self._ahead, self._until = max(0.0, self._ahead + jump), steady + EVENT_SECONDS
        self._wall, self._steady = wall, steady

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            try:
                await self.sweep()
            except ApiError as error:
                _log.warning("old events remain, will retry", error=error.message)


def last_seen(event: Event) -> float:
    """When an event happened last, in seconds since 1970; 0 when it does not say."""
    series = event.series.last_observed_time if event.series else None
    texts = (event.last_timestamp, event.event_time, series, event.metadata.creation_timestamp)
    return max((time_or(text) for text in texts if text), default=0.0)
