"""Turns: work of this process goes on in small portions, so that requests from outside come in between."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field


class Turns:
    """Lets ``each`` callers through per turn of the event loop, first come, first served.

    A transaction wakes everybody who waited for it at once, and dozens of writers at work in the same turn of the loop
    are tens of milliseconds in which no request is read. Where few write nobody waits.
    """

    def __init__(self, each: int) -> None:
        self._each = self._left = each
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._renewing = False

    async def take(self) -> None:
        """Return when it is the caller's turn: at once, or in one of the next turns of the loop."""
        loop = asyncio.get_running_loop()
        if not self._renewing:
            self._renewing = True
            loop.call_soon(self._renew)
        if self._left and not self._waiting:
            self._left -= 1
            return
        future = loop.create_future()
        self._waiting.append(future)
        await future

    def _renew(self) -> None:
        self._left = self._each
        while self._left and self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # who gave up takes nobody's turn
                future.set_result(None)
                self._left -= 1
        self._renewing = self._left < self._each
        if self._renewing:
            asyncio.get_running_loop().call_soon(self._renew)


@dataclass(frozen=True, slots=True)
class Shares:
    """What one turn of the loop holds at most, so that it takes a few milliseconds and a read is never far away.

    Attributes:
        components: writes of clients in this process, about half a millisecond each.
        requests: writes that came by HTTP, somewhat more each.
        events: of watches in this process, decoded and handled by who watches, about a quarter of a millisecond each.
    """

    components: Turns = field(default_factory=lambda: Turns(2))
    requests: Turns = field(default_factory=lambda: Turns(3))
    events: Turns = field(default_factory=lambda: Turns(6))
