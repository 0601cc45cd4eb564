"""Writes what users have used on their queues now and then, so that the next scheduler goes on from there.

The plug-in `fair-share` reads it when it begins. At most the use of one interval is lost, and none when the scheduler
is stopped in order.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from unisono.api.annotations import USE
from unisono.api.kinds import QUEUES
from unisono.engine.plugins.fair_share import UsageBook, Use, written
from unisono.errors import NotFound, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.scheduler.feed import Feed

_log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 300.0
_CLOSE_SECONDS = 2.0


class KeptUse:
    """Keeps the book of decayed use on the queues; failures are logged, and the next try is an interval later."""

    def __init__(self, client: Client, feed: Feed, clock: Clock) -> None:
        self._client, self._feed, self._clock = client, feed, clock
        self._resting: dict[str, dict[str, float]] = {}
        self._failing = False

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_SECONDS)
            await self.write()

    async def close(self) -> None:
        """Write once more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.write()

    async def write(self) -> None:
        """Bring the annotation of every queue in which something is or was used up to date."""
        book = self._feed.state.memo.find(UsageBook)
        for name, uses in (book.kept(self._clock.time()) if book is not None else {}).items():
            if self._changes_nothing(name, uses):
                continue
            try:
                await self._client.patch(QUEUES, name, {"metadata": {"annotations": {USE: written(uses)}}})
            except NotFound:
                continue
            except (UnisonoError, OSError, TimeoutError) as error:
                if not self._failing:
                    _log.warning("kept_use.failed", queue=name, error=str(error) or type(error).__name__)
                self._failing = True
                return
            self._failing = False
            resting = not any(use.held for use in uses.values())
            self._resting[name] = {account: use.seconds for account, use in uses.items()} if resting else {}

    def _changes_nothing(self, name: str, uses: dict[str, Use]) -> bool:
        """Nothing is held since the last write: what was written then only fades, which its reader knows."""
        before = self._resting.get(name) or {}
        return bool(before) and all(
            not use.held and use.seconds <= before.get(account, 0.0) for account, use in uses.items()
        )
