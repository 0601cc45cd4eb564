"""Wakes those who wait for a change of something that they look at."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress


class Signal:
    """Numbers of changes by topic."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._version = 0
        self._waiting: dict[asyncio.Event, Collection[str]] = {}

    def tell(self, topic: str) -> None:
        """Something about the topic has changed."""
        self._version += 1
        self._versions[topic] = self._version
        for event, topics in self._waiting.items():
            if topic in topics:
                event.set()

    def version(self, topics: Collection[str]) -> int:
        """Number of the last change of any of the topics."""
        return max((self._versions.get(topic, 0) for topic in topics), default=0)

    async def changed(self, topics: Collection[str], since: int, seconds: float) -> bool:
        """Wait for a change after ``since``, at most ``seconds``; answers whether there was one."""
        if self.version(topics) > since:
            return True
        event = asyncio.Event()
        self._waiting[event] = topics
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            del self._waiting[event]
        return event.is_set()
