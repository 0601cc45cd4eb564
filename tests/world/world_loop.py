"""An event loop of which everything comes from a seed: virtual time, no threads, and the order of what is ready."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Callable
from random import Random
from typing import Any

# Whose turn it is: the name of a process, which tasks and timers hand on to those that they begin.
PROCESS: contextvars.ContextVar[str] = contextvars.ContextVar("process", default="")
# Added to every jump of time: a rounding error must not leave a timer due for ever at the same moment (seconds).
_TICK = 1e-6
# Steps without any time going by, after which something runs in a circle.
_MOST_STEPS_AT_ONCE = 100_000
# Steps of a whole world; those in which all comes to rest need a fifth.
_MOST_STEPS = 250_000
# Of which so many may come early, and in each virtual second.
_MOST_AT_FIRST, _MOST_A_SECOND = 60_000, 1_000


class RunsInCircles(AssertionError):
    """The parts keep each other busy without any time going by."""


class _Task(asyncio.Task[Any]):
    """A task whose place in a set does not depend on where it is in memory."""

    numbers = itertools.count()

    def __init__(self, *given: Any, **more: Any) -> None:
        self._number = next(_Task.numbers)
        super().__init__(*given, **more)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    """As ``_Task``."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self._number = next(_Task.numbers)
        super().__init__(*given, **more)

    def __hash__(self) -> int:
        return self._number


class _NoSelector:
    """There are no sockets."""

    def register(self, *_: Any) -> None:
        """Nothing to wait for."""

    unregister = register

    def get_map(self) -> dict[int, Any]:
        """Nothing is registered."""
        return {}

    def get_key(self, _: Any) -> Any:
        """Nothing is registered."""
        raise KeyError

    def close(self) -> None:
        """Nothing to close."""


def _is_step(handle: Any) -> bool:
    """Whether it is a turn of a task, and not a callback of which code may expect the order in which it was asked."""
    callback = handle._callback
    return isinstance(getattr(callback, "__self__", None), asyncio.Task) or "Task" in type(callback).__name__


class SeededLoop(asyncio.SelectorEventLoop):
    """Runs tasks that are ready at one time in an order that ``draw`` gives; what would be a thread runs here, later.

    Attributes:
        steps: callbacks run so far.

    """

    def __init__(self, draw: Random, disorder: float = 0.5, slowest: float = 0.2) -> None:
        """``disorder``: share of the turns that are shuffled; ``slowest``: seconds that a thread may take."""
        self._now, self._draw, self._disorder, self._slowest = 0.0, draw, disorder, slowest
        self.steps = self._at_once = 0
        self._paused: set[str] = set()
        self._held: list[asyncio.Handle] = []
        super().__init__(_NoSelector())  # type: ignore[arg-type]
        _Task.numbers = itertools.count()
        self.set_task_factory(lambda loop, coro, **more: _Task(coro, loop=loop, **more))

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """A future that sets keep in one order."""
        return _Future(loop=self)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run ``func`` now or later, whole; the answer comes after a time that is drawn."""
        del executor
        future, context = self.create_future(), contextvars.copy_context()
        total = self._draw.random() ** 4 * self._slowest
        before = total * self._draw.random()

        def answer(result: Any, error: BaseException | None) -> None:
            if not future.cancelled():
                future.set_result(result) if error is None else future.set_exception(error)

        def work() -> None:
            result, failed = None, None
            try:
                result = context.run(func, *args)
            except Exception as error:
                failed = error
            self.call_later(total - before, answer, result, failed)

        self.call_later(before, work)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """There are no threads."""
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, _: Any) -> None:
        """No events of sockets."""

    def _run_once(self) -> None:
        ready: Any = self._ready  # type: ignore[attr-defined]
        scheduled: Any = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            heapq.heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise RunsInCircles("nothing is left that could ever happen")
            self._now = max(self._now, scheduled[0]._when) + _TICK
            self._at_once = 0
        while scheduled and scheduled[0]._when <= self._now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            else:
                ready.append(timer)
        turn = list(ready)
        ready.clear()
        if len(turn) > 1 and self._draw.random() < self._disorder:
            self._shuffle(turn)
        self._at_once += len(turn)
        if self._at_once > _MOST_STEPS_AT_ONCE:
            raise RunsInCircles(f"{_MOST_STEPS_AT_ONCE} steps and no time went by; next is {turn[0]!r}")
        if self.steps > min(_MOST_STEPS, _MOST_AT_FIRST + _MOST_A_SECOND * self._now):
            raise RunsInCircles(f"the parts keep each other busy: {self.steps} steps in {self._now:.0f} s")
        for at, handle in enumerate(turn):
            if handle._cancelled:
                continue
            if self._paused and handle._context.get(PROCESS, "") in self._paused:
                self._held.append(handle)
                continue
            self.steps += 1
            handle._run()
            if self._stopping:  # type: ignore[attr-defined]
                ready.extendleft(reversed(turn[at + 1 :]))
                return

    def pause(self, process: str) -> None:
        """Nothing of ``process`` runs until it goes on: its machine stands still."""
        self._paused.add(process)

    def go_on(self, process: str) -> None:
        """All that came due in the meantime is ready."""
        self._paused.discard(process)
        self._ready.extend(self._held)  # type: ignore[attr-defined]
        self._held.clear()

    def is_paused(self, process: str) -> bool:
        """Whether it stands still."""
        return process in self._paused

    def _shuffle(self, turn: list[Any]) -> None:
        places = [at for at, handle in enumerate(turn) if _is_step(handle)]
        tasks = [turn[at] for at in places]
        self._draw.shuffle(tasks)
        for at, handle in zip(places, tasks, strict=True):
            turn[at] = handle


class WorldClock:
    """``kube.clock.Clock`` of one process; ``ahead`` of the world's own time by so many seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: float) -> None:
        self._loop, self._start, self.ahead = loop, start, 0.0

    def time(self) -> float:
        """Seconds since 1970, as this process believes."""
        return self._start + self._loop.time() + self.ahead

    def monotonic(self) -> float:
        """Virtual seconds since the world began."""
        return self._loop.time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Run ``callback`` after ``seconds``."""
        return self._loop.call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for ``seconds``."""
        await asyncio.sleep(seconds)
