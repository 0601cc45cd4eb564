"""Time as components see it, passed in so that tests run on a virtual clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call; harmless when it already ran."""
        ...


class Clock(Protocol):
    """Wall time for what is written, monotonic time for what is measured."""

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the event loop after ``seconds``."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for ``seconds``."""
        ...


class SystemClock:
    """The machine's clock; ``call_later`` and ``sleep`` need a running event loop."""

    def time(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` on the event loop after ``seconds``."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for ``seconds``."""
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
