"""A view that is costly to make: made in a thread, once for all who look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from unisono.dashboard.live.signal import Signal

T = TypeVar("T")


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
