"""An event loop whose time stands still while there is work, and jumps to the next timer when there is none."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

from unisono.kube.clock import SYSTEM_CLOCK, Timer

# How long the loop waits for a thread that works, before it looks again (seconds).
_LOOK_SECONDS = 0.05
_TICK_SECONDS = 1e-6


class _Selector(selectors.DefaultSelector):
    """Hands every wait for a timer to the loop."""

    wait: Callable[[float], bool] = staticmethod(lambda _: False)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the selector of the system; a wait that the loop takes for itself returns at once."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if ready or self.wait(timeout):
            return ready
        return super().select(min(timeout, _LOOK_SECONDS))


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its ``time`` begins at 0. Set ``busy`` to a function that tells whether a thread works for the loop."""

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        selector.wait = self._skip
        self.busy: Callable[[], bool] = lambda: False
        self._now, self._threads = 0.0, 0

    def time(self) -> float:
        """Seconds since the start, by the virtual clock."""
        # The base class asks before this one is complete.
        return getattr(self, "_now", 0.0)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """As in the base class; time stands still meanwhile."""
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._ended)
        return future

    def _ended(self, _: object) -> None:
        self._threads -= 1

    def _skip(self, seconds: float) -> bool:
        if self._threads or self.busy():
            return False
        # A little more than was asked for: a rounding error must not leave a timer due for ever at the same moment.
        self._now += seconds + _TICK_SECONDS
        return True


class LoopClock:
    """``kube.clock.Clock`` by the running loop's time; ``start``: the time when the loop began, by default now."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: float | None = None) -> None:
        self._loop, self._start = loop, SYSTEM_CLOCK.time() if start is None else start

    def time(self) -> float:
        """Seconds since 1970; the loop began now."""
        return self._start + self._loop.time()

    def monotonic(self) -> float:
        """Seconds since the loop began."""
        return self._loop.time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` after ``seconds``."""
        return self._loop.call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for ``seconds``."""
        await asyncio.sleep(seconds)
