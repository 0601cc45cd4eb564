"""Shows in a terminal or notebook what a job waits for, and how far it is, while a call waits for it."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TextIO

from unisono.sdk.state.views import JobView

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
