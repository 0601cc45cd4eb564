"""Waiting for a change of something, and views that are made once for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


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


class Shared(Generic[T]):
    """One value, rebuilt where something has changed since.

    Args:
        signal: tells changes.
        topics: what the value is made of.
        snapshot: takes what is needed, in the event loop; answers what makes the value of it, which a thread runs.

    """

    def __init__(self, signal: Signal, topics: Collection[str], snapshot: Callable[[], Callable[[], T]]) -> None:
        self._signal, self._topics, self._snapshot = signal, topics, snapshot
        self._version = -1
        self._made: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The value as of now; callers that ask while it is made get the same one."""
        version = self._signal.version(self._topics)
        if self._made is None or (self._made.done() and (version != self._version or self._made.exception())):
            self._version = version
            self._made = asyncio.create_task(asyncio.to_thread(self._snapshot()))
        return await asyncio.shield(self._made)
