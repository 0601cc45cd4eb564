"""What following jobs tells: views that changed and log lines, through a queue that bounds unread lines."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TextIO

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.errors import ApiError
from unisono.sdk.state.observing import Observation
from unisono.sdk.state.views import JobView

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


# Shows in a terminal or notebook what a job waits for, and how far it is, while a call waits for it.

# What is over sooner is not worth a line.
_QUIET_SECONDS = 2.0
_TICK_SECONDS = 0.5
# Where a line cannot be written over, it is told again after so long.
_REPEAT_SECONDS = 60.0


class Teller:
    """One line about a job: on a terminal it is written over, elsewhere it comes again when it changes.

    Args:
        out: where it goes; None for standard error.
        clock: seconds, for tests.
    """

    def __init__(self, out: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out or sys.stderr, clock
        self._terminal = self._out.isatty()
        self._began = clock()
        self._view: JobView | None = None
        self._told: tuple[str, float] = ("", 0.0)
        self._drawn = False

    def see(self, view: JobView) -> None:
        """Take in the newest view."""
        self._view = view

    def tick(self) -> None:
        """Draw the line, if there is something to say by now."""
        seconds = self._clock() - self._began
        text = line_of(self._view) if self._view is not None and seconds >= _QUIET_SECONDS else ""
        if not text:
            self.end()
        elif self._terminal:
            line = f"{text[0 : text.index(' ')]} ({seconds:.0f} s){text[text.index(' ') :]}"
            width = shutil.get_terminal_size().columns
            self._out.write(f"\r\x1b[K{line if len(line) < width else line[: width - 4] + '...'}")
            self._out.flush()
            self._drawn = True
        elif text != self._told[0] or seconds - self._told[1] >= _REPEAT_SECONDS:
            self._told = (text, seconds)
            self._out.write(f"{text} ({seconds:.0f} s)\n")
            self._out.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._drawn = False


def line_of(view: JobView) -> str:
    """What there is to say of a job: why it waits, or its steps; empty where it just runs."""
    if view.ended:
        return ""
    if view.waiting:
        return f"{view.title} waits: {view.waiting}"
    if view.progress is not None:
        return f"{view.title} progress: {view.progress}"
    if view.phase == "Pending":
        return f"{view.title} waits for its {view.gang} pods"
    return ""


@asynccontextmanager
async def telling(enabled: bool) -> AsyncIterator[Callable[[JobView], None] | None]:
    """Show a line within the block; yields what is to hear of each view, None where nothing is shown."""
    if not enabled:
        yield None
        return
    teller = Teller()
    task = asyncio.create_task(_tick(teller))
    try:
        yield teller.see
    finally:
        task.cancel()
        teller.end()


async def _tick(teller: Teller) -> None:
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        teller.tick()


def is_watched() -> bool:
    """Whether a person looks: standard error is a terminal, or the program is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
