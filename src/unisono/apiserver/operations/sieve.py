"""Selecting among many objects by a selector that users write, in slices between which others are answered."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from unisono.apiserver.flow_control.lines import Places
from unisono.apiserver.storage.entry import Entry

SLICE_SECONDS = 0.005


class Sieve:
    """Selections of one server; those that take longer than a slice go on one after the other, and tenants in turn.

    Args:
        clock: seconds that only grow.

    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        # One of each tenant at a time, and of all of those one slice.
        self._selections, self._slices = Places(sys.maxsize, 1), Places(1, 1)

    async def select(self, entries: Sequence[Entry], matches: Callable[[Entry], bool]) -> list[Entry]:
        """Those of ``entries`` that match, in their order."""
        found: list[Entry] = []
        rest = iter(entries)
        if self._slice(rest, matches, found):
            return found
        async with self._selections.one():
            done = False
            while not done:
                async with self._slices.one():
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
