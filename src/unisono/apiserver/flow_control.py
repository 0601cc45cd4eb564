"""What one request may take of the server: bounds of sizes and depths, and turns of long work."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

from unisono.errors import ConfigError

# Bounds on what clients of the API may take: sizes, times, connections, requests in progress, streams.

NAMESPACE_BYTES = 512 * 1024 * 1024
"""Bytes that the objects of one namespace may take: about 150,000 pods, a quarter of what etcd may hold in all."""
_MEANINGS = "docs/kubernetes-api.md lists them"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that hold for every client; ``unisono up --api-limit NAME=VALUE`` changes them.

    Attributes:
        namespace_bytes: what the stored objects of one namespace may take.
        body_bytes: largest body, after decompression.
        body_seconds: time in which a body must have arrived.
        write_seconds: time in which a client must take a piece of an answer before its connection is dropped.
        in_flight: requests in progress of all users; streams and the control plane's own components are not counted.
        in_flight_of_one: requests in progress of one user.
        streams: watches, followed logs and sessions.
        streams_of_one: the same of one user.
        logs: logs being read, each of which holds a file open.
        logs_of_one: the same of one user.
        sessions: exec, attach and port-forward.
        sessions_of_one: the same of one user.
        session_idle_seconds: time without a byte in either direction after which a session ends.
        forwarded: connections to ports of pods, in all sessions.
        forwarded_of_one: the same in one session.
        connections: open connections.
        connections_of_one: open connections of one user.
        newcomers: open connections whose user is not known.
        newcomers_of_address: the same from one address of another machine; of IPv6, from one /64 network.
        handshake_seconds: time in which TLS must be agreed.
        head_seconds: time after that in which the head of the first request must have arrived.
        idle_seconds: time after an answer in which the head of the next request must have arrived.
    """

    namespace_bytes: int = NAMESPACE_BYTES
    body_bytes: int = 3 * 1024 * 1024
    body_seconds: float = 30.0
    write_seconds: float = 30.0
    in_flight: int = 400
    in_flight_of_one: int = 100
    streams: int = 2000
    streams_of_one: int = 1500
    logs: int = 500
    logs_of_one: int = 200
    sessions: int = 200
    sessions_of_one: int = 50
    session_idle_seconds: float = 4 * 3600.0
    forwarded: int = 500
    forwarded_of_one: int = 100
    connections: int = 4000
    connections_of_one: int = 1800
    newcomers: int = 1000
    newcomers_of_address: int = 100
    handshake_seconds: float = 10.0
    head_seconds: float = 10.0
    idle_seconds: float = 120.0

    def changed(self, settings: Iterable[str]) -> Limits:
        """These limits with ``NAME=VALUE`` applied; names may be written with dashes.

        Raises:
            ConfigError: there is no such limit, or the value is not a positive number.
        """
        kinds = get_type_hints(Limits)
        values: dict[str, float] = {}
        for setting in settings:
            name, equals, text = setting.partition("=")
            name = name.strip().replace("-", "_")
            if name not in kinds or not equals:
                raise ConfigError(f'"{setting}" is not a limit of the API as NAME=VALUE; {_MEANINGS}', key="api-limit")
            try:
                values[name] = kinds[name](text.strip())
            except ValueError:
                values[name] = 0
            if not 0 < values[name] < float("inf"):
                what = "whole number" if kinds[name] is int else "number"
                raise ConfigError(f'{name}: "{text}" must be a {what} above 0', key="api-limit")
        return replace(self, **values)  # type: ignore[arg-type]  # each is of its field's type

    def within(self, files: int) -> Limits:
        """These limits where the process may have ``files`` open files.

        At most half are for connections and three sixteenths for logs, sessions and forwarded connections; the rest is
        left to the store, the log and the control plane's own components.
        """
        connections = min(self.connections, max(1, files // 2))
        share = max(1, files // 16)
        bounded = {
            "connections": connections,
            "connections_of_one": min(self.connections_of_one, max(1, connections * 3 // 4)),
            "newcomers": min(self.newcomers, max(1, connections // 4)),
            "streams": min(self.streams, max(1, connections * 3 // 4)),
            "streams_of_one": min(self.streams_of_one, max(1, connections // 2)),
            "logs": min(self.logs, share),
            "logs_of_one": min(self.logs_of_one, max(1, share // 2)),
            # A session has a file for each of its streams.
            "sessions": min(self.sessions, max(1, share // 4)),
            "sessions_of_one": min(self.sessions_of_one, max(1, share // 8)),
            "forwarded": min(self.forwarded, share),
            "forwarded_of_one": min(self.forwarded_of_one, max(1, share // 2)),
        }
        return replace(self, **bounded)


# How deep JSON values of users may be nested.

DEEPEST = 200
"""Levels of a value. Schemas of real definitions have up to 60."""


def too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than all code that reads it recursively can handle."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            return True
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below.extend(one for one in each.values() if isinstance(one, dict | list))
            elif isinstance(each, list):
                below.extend(one for one in each if isinstance(one, dict | list))
        level = below
    return False


# Whose turn it is: portions of long work, lines of tenants and users, and heavy work beside the event loop.

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
        item = waiting.popleft()
        # Behind the others, the user among those of the tenant.
        if waiting:
            users[user] = waiting
        if users:
            self._waiting[tenant] = users
        return item, tenant


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
        while self._free > 0 and (entry := self._waiting.take(lambda tenant: self._held[tenant] < self._each)):
            future, tenant = entry
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
        while self._left > 0 and (entry := self._waiting.take()) is not None:
            (future, weight), _ = entry
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


# What one slice looks at; reading the metadata of so many bytes takes about 10 ms.
_SLICE_BYTES = 4 * 1024 * 1024


class Slices:
    """Long work on the event loop, cut into slices between which others run."""

    def __init__(self) -> None:
        self._left = _SLICE_BYTES

    async def spend(self, units: int) -> None:
        """Count ``units`` bytes of work; let others run when the slice is used up."""
        self._left -= units
        if self._left <= 0:
            self._left = _SLICE_BYTES
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
