"""Selecting among many objects by a selector that users write, in slices between which others are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence

from unisono.apiserver.storage.entry import Entry

SLICE_SECONDS = 0.005


class Sieve:
    """Selections of one server; those that take longer than a slice go on one after the other.

    Args:
        clock: seconds that only grow.

    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock, self._turn = clock, asyncio.Lock()

    async def select(self, entries: Sequence[Entry], matches: Callable[[Entry], bool]) -> list[Entry]:
        """Those of ``entries`` that match, in their order."""
        found: list[Entry] = []
        rest = iter(entries)
        if self._slice(rest, matches, found):
            return found
        async with self._turn:
            done = False
            while not done:
                await asyncio.sleep(0)
                done = self._slice(rest, matches, found)
        return found

    def _slice(self, rest: Iterator[Entry], matches: Callable[[Entry], bool], found: list[Entry]) -> bool:
        """Look at some of the rest; whether that was all of it."""
        end = self._clock() + SLICE_SECONDS
        for entry in rest:
            if matches(entry):
                found.append(entry)
            if self._clock() >= end:
                return False
        return True
