"""How many requests of one client are under way at a time: fewer after the server said that it is too busy.

An API server that answers 429 has more to do than it can. Each request that it refused comes again after the time that
the server asks for, but that alone does not help when a thousand others follow meanwhile. So all requests of the client
share one bound: it is halved when the server refuses, and grows by one with every round of requests that it answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from unisono.kube.clock import Clock

_LEAST = 4
# Refusals that come so closely are about one moment, and count once (seconds).
_ONE_MOMENT = 1.0


class Flow:
    """The bound on requests under way; belongs to one event loop."""

    def __init__(self, clock: Clock, most: int) -> None:
        """``most`` is the bound for a server that never refuses."""
        self._clock, self._most = clock, float(max(most, _LEAST))
        self._limit = self._most
        self._under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._halved_at = float("-inf")

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """One request; waits, first come first served, until there is room."""
        await self._enter()
        try:
            yield
        finally:
            self._under_way -= 1
            self._let_in()

    def answered(self) -> None:
        """The server did what it was asked for, or said why not."""
        if self._limit < self._most:
            self._limit = min(self._most, self._limit + 1.0 / self._limit)
            self._let_in()

    def refused(self) -> None:
        """The server is too busy."""
        now = self._clock.monotonic()
        if now - self._halved_at >= _ONE_MOMENT:
            self._halved_at = now
            # What is allowed and not used says nothing about what the server can bear.
            self._limit = max(float(_LEAST), min(self._limit, float(self._under_way)) / 2)

    async def _enter(self) -> None:
        if not self._waiting and self._under_way < self.limit:
            self._under_way += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # Its turn had come already: the next one takes it.
                self._under_way -= 1
                self._let_in()
            raise

    def _let_in(self) -> None:
        while self._waiting and self._under_way < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._under_way += 1
                turn.set_result(None)
