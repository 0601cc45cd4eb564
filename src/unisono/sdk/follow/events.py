"""What following jobs tells: views that changed and log lines, through a queue that bounds unread lines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.errors import ApiError
from unisono.sdk.state.observing import Observation

# Log lines that wait for the reader; beyond them the connections to the server wait.
_UNREAD_LINES = 100


@dataclass(frozen=True, slots=True)
class Target:
    """An object to follow.

    Attributes:
        kind: of the object: a job of any kind, ``Pod``, or anything else that has pods.
        namespace: of the object.
        name: of the object.
        created: the object as its creation answered; None for one that exists.

    """

    kind: Kind[Object]
    namespace: str
    name: str
    created: Object | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Observed:
    """Something about a job changed; a reader that falls behind gets its newest state only."""

    target: Target
    observation: Observation


@dataclass(frozen=True, slots=True)
class LogText:
    """One line of a container's log."""

    target: Target
    pod: Pod
    container: str
    text: str


@dataclass(frozen=True, slots=True)
class LogFailed:
    """A container's log cannot be read, or not to its end."""

    target: Target
    pod: Pod
    container: str
    error: ApiError


Event = Observed | LogText | LogFailed


@dataclass(frozen=True, slots=True)
class _End:
    """Nothing follows; ``error`` is why, unless everything has ended."""

    error: Exception | None = None


class EventQueue:
    """Events from one follower to one reader.

    Log lines wait for room. Everything else never waits, so that a slow reader of lines does not keep the follower
    from reading the logs of pods before the server forgets them.
    """

    def __init__(self) -> None:
        self._events: asyncio.Queue[Target | LogText | LogFailed | _End] = asyncio.Queue()
        self._room = asyncio.Semaphore(_UNREAD_LINES)
        self._newest: dict[Target, Observation] = {}

    async def put_line(self, line: LogText) -> None:
        """Add a log line as soon as there is room."""
        await self._room.acquire()
        self._events.put_nowait(line)

    def put_failure(self, failure: LogFailed) -> None:
        """Add a log that cannot be read."""
        self._events.put_nowait(failure)

    def put_observation(self, target: Target, observation: Observation) -> None:
        """Add what a target looks like now; it replaces an unread one."""
        if target not in self._newest:
            self._events.put_nowait(target)
        self._newest[target] = observation

    def close(self, error: Exception | None = None) -> None:
        """End the events, with the error that ended following."""
        self._events.put_nowait(_End(error))

    async def get(self) -> Event | None:
        """The next event; None after the last one.

        Raises:
            Exception: the one that ended following.

        """
        match await self._events.get():
            case Target() as target:
                return Observed(target, self._newest.pop(target))
            case LogText() as line:
                self._room.release()
                return line
            case LogFailed() as failure:
                return failure
            case _End(error):
                if error is not None:
                    raise error
                return None
