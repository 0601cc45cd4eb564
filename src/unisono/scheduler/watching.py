"""Watches what a scheduler watches and writes it down, without deciding anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from unisono.kube.client import Client
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.reflector import Reflector
from unisono.scheduler.feed import KINDS, OPTIONAL, Feed
from unisono.scheduler.recording import Recorder

_SECONDS = 1.0


class Watching:
    """Records the events of a cluster until cancelled.

    Attributes:
        feed: what is known of the cluster.
        synced: set once every list has been read.
    """

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        scheduler_names: Sequence[str],
        default_queue: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._recorder, self._clock = recorder, clock
        self.feed = Feed(recorder.state(scheduler_names, default_queue), lambda: None)
        self.synced = asyncio.Event()
        self._reflectors: list[Reflector[Any]] = [
            Reflector(client, kind, self.feed.sink(kind), clock=clock, absent_seconds=OPTIONAL.get(kind))
            for kind in KINDS
        ]

    async def run(self) -> None:
        """Watch until cancelled; the time is written down with the events of each second."""
        try:
            async with asyncio.TaskGroup() as group:
                for reflector in self._reflectors:
                    group.create_task(reflector.run())
                for reflector in self._reflectors:
                    await reflector.synced.wait()
                self.synced.set()
                told = -1
                while True:
                    if self.feed.events != told:
                        told = self.feed.events
                        self._recorder.time(self._clock.time())
                    await self._clock.sleep(_SECONDS)
        finally:
            self._recorder.close()
