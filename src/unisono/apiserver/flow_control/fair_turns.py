"""Turns: work of this process goes on in small portions, so that requests from outside come in between."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from unisono.apiserver.flow_control.lines import Lines

# Turns of the loop without portions after each one with: the first reads from the sockets what has come during the
# portions, the second lets what it woke up answer.
_FREE = 2


class Rhythm:
    """The beat on which all portions of a process begin, so that between two beats the loop is free for requests."""

    def __init__(self, free: int = _FREE) -> None:
        self._free = free
        self._members: list[Callable[[], bool]] = []
        self._once: deque[Callable[[], None]] = deque()
        self._beating = False

    def join(self, member: Callable[[], bool]) -> None:
        """Call ``member`` on each beat; it answers whether it needs the next one."""
        self._members.append(member)

    def at_next(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` on the next beat, once."""
        self._once.append(callback)
        self.start()

    def start(self) -> None:
        """Beat until no member needs it any more."""
        if not self._beating:
            self._beating = True
            asyncio.get_running_loop().call_soon(self._pass, self._free)

    def _pass(self, left: int) -> None:
        loop = asyncio.get_running_loop()
        if left:
            loop.call_soon(self._pass, left - 1)
            return
        for _ in range(len(self._once)):
            self._once.popleft()()
        needed = [member() for member in self._members]
        self._beating = any(needed) or bool(self._once)
        if self._beating:
            loop.call_soon(self._pass, self._free)


class Turns:
    """Lets ``each`` callers through per beat: users in turn, and of one user first come, first served.

    A transaction wakes all who waited for it at once, and dozens of writers at work in the same turn of the loop
    are tens of milliseconds in which no request is read. Where few write, none waits. One user's hundred requests hold
    up another user's by one of them, and so do those of a tenant's hundred users those of another tenant.

    Args:
        each: callers per beat, where each counts as one.
        rhythm: gives the beat; one of its own when None.

    """

    def __init__(self, each: int, rhythm: Rhythm | None = None) -> None:
        self._each = self._left = each
        self._waiting: Lines[tuple[asyncio.Future[None], int]] = Lines()
        self._rhythm = rhythm or Rhythm()
        self._rhythm.join(self._renew)

    async def take(self, weight: int = 1, user: str = "", tenant: str = "") -> None:
        """Return when it is the caller's turn: at once, or on one of the next beats.

        Args:
            weight: as how many the caller counts; more than there are turns take those of later beats, too.
            user: who calls.
            tenant: to whom the user belongs.

        """
        self._rhythm.start()
        if self._left > 0 and not self._waiting:
            self._left -= weight
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.put((future, weight), user, tenant)
        await future

    def _renew(self) -> bool:
        self._left = min(self._each, self._left + self._each)
        while self._left > 0 and (found := self._waiting.take()) is not None:
            (future, weight), _ = found
            if not future.done():  # a caller that gave up takes no turn
                future.set_result(None)
                self._left -= weight
        return self._left < self._each


@dataclass(frozen=True, slots=True)
class Shares:
    """What one beat holds at most, so that it takes a few milliseconds and a read is never far away.

    Attributes:
        rhythm: the beat of all of them.
        components: writes of clients in this process, a quarter to half a millisecond each.
        requests: writes that came by HTTP, about a millisecond each.
        reads: reads of clients by HTTP, from a quarter of a millisecond to some, where they are lists.
        events: of watches in this process, decoded and handled by the watcher, about a quarter of a millisecond each.
        sent: events that are sent to watches by HTTP, or pieces of 32 KiB of them, up to a tenth of a millisecond each.
        frames: messages and frames of clients that have left HTTP, up to a fortieth of a millisecond each.
    """

    rhythm: Rhythm = field(default_factory=Rhythm)
    components: Turns = field(init=False)
    requests: Turns = field(init=False)
    reads: Turns = field(init=False)
    events: Turns = field(init=False)
    sent: Turns = field(init=False)
    frames: Turns = field(init=False)

    def __post_init__(self) -> None:
        for name, each in (
            ("components", 3),
            ("requests", 3),
            ("reads", 4),
            ("events", 8),
            ("sent", 32),
            ("frames", 128),
        ):
            object.__setattr__(self, name, Turns(each, self.rhythm))
