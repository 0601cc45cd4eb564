"""How fast a client may go: waits before the next try, circuit breakers, and a pace that busy servers set."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from unisono.kube.clock import SYSTEM_CLOCK, Clock, Timer

# How long to wait before the next try.

_MAX_DOUBLINGS = 62

JITTER = random.Random()  # noqa: S311  # nosec B311 # no secret
"""Source of all delays that have none of their own; a simulation seeds it."""


@dataclass(slots=True)
class Backoff:
    """Exponential delays with full jitter over the upper half.

    Attributes:
        base: seconds before the first retry.
        cap: longest delay in seconds.
        jitter: share of the delay that is random, 0 to 1; spreads clients that failed together.
        rng: source of the jitter.
    """

    base: float = 0.01
    cap: float = 60.0
    jitter: float = 0.5
    rng: random.Random = field(default_factory=lambda: JITTER)

    def delay(self, failures: int) -> float:
        """Seconds to wait after ``failures`` failures in a row (1 or more)."""
        full = min(self.cap, self.base * float(1 << min(max(failures - 1, 0), _MAX_DOUBLINGS)))
        return full * (1.0 - self.jitter * self.rng.random())


# Circuit breakers: an address that does not answer several times in a row is not asked for a while.

# Addresses that fail at the same time and are remembered; beyond that the oldest is forgotten, and asked again.
_REMEMBERED = 1024


@dataclass(slots=True)
class _Broken:
    failures: int = 0
    until: float = 0.0


class Circuits:
    """The circuit breakers of all addresses that one component calls.

    After ``failures`` calls in a row without an answer an address rests for a second, then for twice as long each
    time, up to ``longest`` seconds. After each rest one call tries it; an answer ends the rest for all.
    """

    def __init__(self, monotonic: Callable[[], float], *, failures: int, longest: float) -> None:
        """``monotonic`` gives seconds that only grow."""
        self._monotonic, self._most, self._longest = monotonic, failures, longest
        self._broken: dict[str, _Broken] = {}

    def rest(self, address: str) -> str:
        """Why the address is not to be asked now; empty where it is, and then the caller must tell how it went."""
        broken = self._broken.get(address)
        if broken is None or broken.failures < self._most:
            return ""
        now = self._monotonic()
        if now < broken.until:
            return f"{broken.failures} calls in a row got no answer; asked again in {broken.until - now:.1f} s"
        # This caller tries; the others wait for what it finds.
        broken.until = now + self._pause(broken)
        return ""

    def resting(self, address: str) -> bool:
        """Whether `rest` would give a reason now; the caller does not mean to ask."""
        broken = self._broken.get(address)
        return broken is not None and broken.failures >= self._most and self._monotonic() < broken.until

    def failed(self, address: str) -> None:
        """The address gave no answer."""
        if address not in self._broken and len(self._broken) >= _REMEMBERED:
            del self._broken[next(iter(self._broken))]
        broken = self._broken.setdefault(address, _Broken())
        broken.failures += 1
        if broken.failures >= self._most:
            broken.until = self._monotonic() + self._pause(broken)

    def answered(self, address: str) -> None:
        """The address gave an answer, whether a good one or not."""
        self._broken.pop(address, None)

    def clear(self) -> None:
        """Forget all failures."""
        self._broken.clear()

    def _pause(self, broken: _Broken) -> float:
        return min(float(1 << min(broken.failures - self._most, 20)), self._longest)


# How fast one client may go: fewer requests after the server was too busy, and writes slower where it is slow.
#
# An API server that answers 429 has more to do than it can. Each request that it refused comes again after the time
# that the server asks for, but that alone does not help when a thousand others follow meanwhile. So all requests of the
# client share one bound: it is halved when the server refuses, and grows by one with every round of requests that it
# answers.
#
# Every `Client` has one `WritePace`, which measures all writes of that client. Whatever writes through the client asks
# it how far to stretch its intervals, and whether to wait while pods are created and bound. The rules are on one page,
# `docs/decisions/0007-how-often-statuses-are-written.md`.

# An API server with time to spare answers a write well within this; on an overloaded machine it takes a multiple.
_CALM_SECONDS = 0.05
_MOST_STRETCH = 4.0
# Weight of the newest answer: about twenty answers make a new opinion.
_WEIGHT = 0.1
# A pause between two batches of pods does not end a rush (seconds).
_LULL_SECONDS = 1.0

LONGEST_SECONDS = 10.0
"""How long a write may yield to urgent ones: a rush that does not end must not hide why something waits."""
LONGEST_COUNT_SECONDS = 30.0
"""The same for good news: counts of pods, and that a gang or a job runs."""

Resume = Callable[[str], None]
_LEAST = 4
# Refusals that come so closely are about one moment, and count once (seconds).
_ONE_MOMENT = 1.0


class WritePace:
    """The pace of one client; belongs to one event loop."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._mean = 0.0
        self._urgent, self._urgent_at = 0, float("-inf")
        self._rush = False
        self._timer: Timer | None = None
        self._parked: dict[tuple[Resume, str], None] = {}

    # ---- for clients

    @contextmanager
    def write(self) -> Iterator[None]:
        """Measure one write; a client wraps each of its writes in this."""
        begun = self._clock.monotonic()
        try:
            yield
        finally:
            self._mean += _WEIGHT * (self._clock.monotonic() - begun - self._mean)

    def close(self) -> None:
        """Call no parked writer any more."""
        self._parked.clear()
        self._stop_timer()

    # ---- for writers

    @property
    def stretch(self) -> float:
        """Factor for the intervals between writes that can wait: from 1, the server answers in time, to 4."""
        return min(_MOST_STRETCH, max(1.0, self._mean / _CALM_SECONDS))

    @contextmanager
    def urgent(self) -> Iterator[None]:
        """Mark one write that makes pods run: other writers of this client yield to it while the server is slow."""
        self._urgent += 1
        self._rush = True
        self._stop_timer()
        try:
            yield
        finally:
            self._urgent -= 1
            self._urgent_at = self._clock.monotonic()
            if not self._urgent:
                self._timer = self._clock.call_later(_LULL_SECONDS, self._end_rush)

    @property
    def urgent_until(self) -> float:
        """Until when pods were created or bound, however fast the server is: now while they are (monotonic clock)."""
        return self._clock.monotonic() if self._urgent else self._urgent_at

    @property
    def rush(self) -> bool:
        """Whether writes that can wait should wait now: pods are being created or bound, and the server is slow."""
        return self._rush and self.stretch > 1.0

    def park(self, key: str, resume: Resume) -> None:
        """Call ``resume`` with ``key`` once, at the end of the rush."""
        self._parked[resume, key] = None

    def leave(self, key: str, resume: Resume) -> None:
        """Undo `park`; does nothing for a key that is not parked."""
        self._parked.pop((resume, key), None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_rush(self) -> None:
        self._timer = None
        self._rush = False
        parked, self._parked = self._parked, {}
        for resume, key in parked:
            resume(key)


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
