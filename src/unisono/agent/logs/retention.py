"""Logs of deleted pods, kept for clients that have seen the pod and are about to read them.

A pod that has ended is gone from the API as soon as it is deleted, and a controller may delete it a moment after its
last line. A client that follows a job would miss the lines of such pods.
"""

from __future__ import annotations

import asyncio
from collections import deque

from unisono.agent.layout import Layout
from unisono.kube.clock import Clock

KEPT_SECONDS = 30.0


class LastWords:
    """Keeps the logs of removed pods for a while.

    Args:
        layout: where pods are kept.
        clock: tells how long.
    """

    def __init__(self, layout: Layout, clock: Clock) -> None:
        self._layout, self._clock = layout, clock
        self._kept: deque[tuple[float, str]] = deque()
        self._trash = asyncio.Event()

    def clear(self) -> None:
        """Forget those that an earlier agent kept."""
        self._kept.clear()
        for directory in self._layout.gone_pods():
            self._layout.discard(directory.path)
        self._trash.set()

    def keep(self, uid: str) -> None:
        """Put the pod's directory aside; its volumes are out of reach at once."""
        if self._layout.put_aside(uid):
            self._kept.append((self._clock.monotonic() + KEPT_SECONDS, uid))
        self._trash.set()

    async def run(self) -> None:
        """Remove what has been kept long enough, and what was thrown away, for ever."""
        emptying = asyncio.create_task(self._empty())
        try:
            while True:
                while self._kept and self._kept[0][0] <= self._clock.monotonic():
                    self._layout.discard(self._layout.gone_pod(self._kept.popleft()[1]).path)
                    self._trash.set()
                await self._clock.sleep(KEPT_SECONDS / 3)
        finally:
            emptying.cancel()
            await asyncio.gather(emptying, return_exceptions=True)

    async def _empty(self) -> None:
        """In a thread: a pod may have left any number of files."""
        while True:
            await self._trash.wait()
            self._trash.clear()
            await asyncio.to_thread(self._layout.empty_trash)
