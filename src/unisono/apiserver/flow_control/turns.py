"""Whose turn it is: portions of long work, lines of tenants and users, and heavy work beside the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

# Who waits for what: tenants come in turn, and of each tenant its users; of one user first come, first served.

T = TypeVar("T")

CALLER: ContextVar[tuple[str, str]] = ContextVar("caller", default=("", ""))
"""User and tenant for whom the present request is worked on; empty for components of this process."""


class Lines(Generic[T]):
    """The waiting ones of every user of every tenant."""

    def __init__(self) -> None:
        # By tenant and user, each in the order of their turns.
        self._waiting: dict[str, dict[str, deque[T]]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, one: T, user: str, tenant: str) -> None:
        """Let one wait behind the others of its user."""
        self._waiting.setdefault(tenant, {}).setdefault(user, deque()).append(one)

    def take(self, allowed: Callable[[str], bool] = lambda _: True) -> tuple[T, str] | None:
        """The next one and its tenant, of those tenants that are ``allowed``; None where there is none."""
        tenant = next(filter(allowed, self._waiting), None)
        if tenant is None:
            return None
        users = self._waiting.pop(tenant)
        user = next(iter(users))
        waiting = users.pop(user)
        found = waiting.popleft()
        # Behind the others, the user among those of the tenant.
        if waiting:
            users[user] = waiting
        if users:
            self._waiting[tenant] = users
        return found, tenant


class Places:
    """So many requests are worked on at a time, and so many of one tenant, whose requests ``CALLER`` tells.

    Args:
        count: all places.
        each: those that one tenant may have.

    """

    def __init__(self, count: int, each: int) -> None:
        self._free, self._each = count, each
        self._held: Counter[str] = Counter()
        self._waiting: Lines[asyncio.Future[None]] = Lines()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Hold a place."""
        user, tenant = CALLER.get()
        future = asyncio.get_running_loop().create_future()
        self._waiting.put(future, user, tenant)
        self._hand_out()
        try:
            await future
            yield
        finally:
            # One that was given a place in the moment in which it gave up has it as well.
            if future.done() and not future.cancelled():
                self._free += 1
                self._held[tenant] -= 1
                if not self._held[tenant]:
                    del self._held[tenant]
                self._hand_out()

    def _hand_out(self) -> None:
        while self._free > 0 and (found := self._waiting.take(lambda tenant: self._held[tenant] < self._each)):
            future, tenant = found
            if not future.done():  # a caller that gave up takes no place
                self._free -= 1
                self._held[tenant] += 1
                future.set_result(None)


# Turns: work of this process goes on in small portions, so that requests from outside come in between.

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


# Heavy work beside the event loop, or on it in slices: one large request must not keep the others waiting.

HEAVY_BYTES = 32 * 1024
"""From this size on decoding, merging and validating an object takes milliseconds."""
# Threads of their own, so that large requests wait for each other alone, and one of each tenant at a time: they share
# the interpreter, and one may take seconds.
_COUNT = 2
_THREADS = ThreadPoolExecutor(_COUNT, thread_name_prefix="heavy-request")
_PLACES: WeakKeyDictionary[asyncio.AbstractEventLoop, Places] = WeakKeyDictionary()
_heavy: ContextVar[bool] = ContextVar("heavy", default=False)


def weigh(size: int) -> None:
    """Tell how many bytes the current request works on."""
    if size > HEAVY_BYTES:
        _heavy.set(True)


def is_heavy() -> bool:
    """Whether the current request works on much."""
    return _heavy.get()


class Slices:
    """Long work on the event loop, cut into slices between which others run.

    Args:
        size: bytes that one slice looks at; reading the metadata of so many takes about 10 ms.

    """

    def __init__(self, size: int = 4 * 1024 * 1024) -> None:
        self._size = self._left = size

    async def spend(self, units: int) -> None:
        """Count ``units`` bytes of work; let others run when the slice is used up."""
        self._left -= units
        if self._left <= 0:
            self._left = self._size
            await asyncio.sleep(0)


async def aside(function: Callable[..., T], *arguments: Any, always: bool = False) -> T:
    """What a pure function answers; where the request is heavy, or ``always``, from a thread."""
    if not (always or _heavy.get()):
        return function(*arguments)
    loop = asyncio.get_running_loop()
    if (places := _PLACES.get(loop)) is None:
        places = _PLACES[loop] = Places(_COUNT, 1)
    async with places.one():
        return await loop.run_in_executor(_THREADS, function, *arguments)
