"""The loop that limits are watched by: looks at an interval while there is something to watch, and never ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

from unisono.kube.clock import Clock

K = TypeVar("K")
V = TypeVar("V")

_log = structlog.get_logger(__name__)


class WatchLoop(Generic[K, V]):
    """What is watched, and the loop that looks at it.

    A look that raises is logged and repeated: an error is no reason to stop enforcing a limit.

    Args:
        name: what the log calls it.
        clock: paces the looks.
        seconds: from the end of one look to the next.
        look: called with all that is watched, by key.
    """

    def __init__(self, name: str, clock: Clock, seconds: float, look: Callable[[dict[K, V]], Awaitable[None]]) -> None:
        self._name, self._clock, self._seconds, self._look = name, clock, seconds, look
        self._watched: dict[K, V] = {}
        self._any = asyncio.Event()
        self._problem = ""

    def add(self, key: K, value: V) -> None:
        """Watch something until ``remove``."""
        self._watched[key] = value
        self._any.set()

    def remove(self, key: K) -> V | None:
        """Stop watching; answers what was watched."""
        return self._watched.pop(key, None)

    def get(self, key: K) -> V | None:
        """What is watched under a key; None after ``remove``."""
        return self._watched.get(key)

    async def run(self) -> None:
        """Look until cancelled; costs nothing while nothing is watched."""
        while True:
            await self._any.wait()
            await self._clock.sleep(self._seconds)
            if not self._watched:
                self._any.clear()
                continue
            try:
                await self._look(dict(self._watched))
            except Exception as error:
                self._say(f"{type(error).__name__}: {error}")
            else:
                self._say("")

    def _say(self, problem: str) -> None:
        """Log a problem once, until it changes."""
        if problem and problem != self._problem:
            _log.warning("limits.not_measured", what=self._name, error=problem)
        self._problem = problem
