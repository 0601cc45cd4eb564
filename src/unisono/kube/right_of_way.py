"""Who goes first while the API server is strained: writes that make pods run, before writes that only tell of them.

A strained server divides its time among all who ask. Pods that are created and bound are what everybody waits for; that
a gang runs, and how many of a job's pods do, may be told when the rush is over. On a server that answers well nobody
waits for anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from unisono.kube.clock import Clock, Timer
from unisono.kube.strain import Strain

# A pause between two batches of pods is not the end of a rush (seconds).
_LULL_SECONDS = 1.0

LONGEST_SECONDS = 10.0
"""For so long a write may give way; a rush that does not end must not hide why something waits."""
LONGEST_COUNT_SECONDS = 30.0
"""The same for good news: counts of pods, and that a gang or a job runs."""


Resume = Callable[[str], None]


class RightOfWay:
    """What the writers of one process know of each other; belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._strain = Strain()
        self._under_way = 0
        self._rush = False
        self._timer: Timer | None = None
        self._parked: dict[tuple[Resume, str], None] = {}

    @contextmanager
    def first(self) -> Iterator[None]:
        """Around one write that makes pods run."""
        begun = self._clock.monotonic()
        self._under_way += 1
        self._rush = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            yield
        finally:
            self._under_way -= 1
            self._strain.note(self._clock.monotonic() - begun)
            if not self._under_way:
                self._timer = self._clock.call_later(_LULL_SECONDS, self._end)

    @property
    def taken(self) -> bool:
        """Whether others give way now."""
        return self._rush and self._strain.stretch > 1.0

    def park(self, key: str, resume: Resume) -> None:
        """Call ``resume`` with ``key`` once, at the end of the rush."""
        self._parked[resume, key] = None

    def leave(self, key: str, resume: Resume) -> None:
        """What ``park`` was told is no longer wanted; fine for a key that is not parked."""
        self._parked.pop((resume, key), None)

    def close(self) -> None:
        """Call nobody any more."""
        self._parked.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._timer = None
        self._rush = False
        parked, self._parked = self._parked, {}
        for resume, key in parked:
            resume(key)
