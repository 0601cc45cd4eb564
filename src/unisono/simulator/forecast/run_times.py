"""Possible run times of a job: how long jobs like it have run, for as far as it has come already."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from unisono.engine.answers import FloatArray
from unisono.simulator.forecast.live import Guess

_LEAST = 20
"""Jobs that must have ended before they count more than what is generally true, and that are most like a job."""
_LIKE = 0.1
"""Share of the jobs that have ended of which the possible run times are."""
_SURVIVORS = 5
"""Of fewer jobs that ran as long as a job has run already nothing is known but the order of magnitude."""
_COMMON = 0.3
"""Share of the variance of run times that all jobs of a kind have in common.

In logs of HPC2N and Philly the correlation between runs of a kind that are five or ten apart is 0.22 to 0.44, as normal
scores of their ratios to the same guess.
"""
_NORMAL = NormalDist()
_SIZE_WEIGHT = 0.3
"""What a doubling of GPUs counts for beside e times the run time."""


class Ran(NamedTuple):
    """A job that has succeeded: its seconds, its limit, what earlier runs of its kind showed (0.0: nothing), GPUs."""

    seconds: float
    limit: float
    shown: float
    gpus: float


@dataclass(slots=True)
class Spread:
    """Run times around guesses.

    A run time is drawn from the jobs that are most like it, by what was stated, what earlier runs of their kind had
    shown, and GPUs; each scaled to the guess. A job that runs already has outlived some of them, which do not count.

    Without enough of them, what is known of real logs holds: jobs use any share of the limits that users state, each
    about as often (Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", IEEE
    TPDS 12, 2001), runs of one program lie within a factor of about two of the last ones, and of jobs without a guess
    nothing is known but the order of magnitude.

    Attributes:
        ran: jobs that have succeeded.
    """

    ran: Sequence[Ran] = ()
    _table: FloatArray | None = None
    _known: dict[tuple[Guess, float], list[float]] = field(default_factory=dict)

    def at(self, share: float, guess: Guess, elapsed: float) -> float | None:
        """The run time in all that so large a share of those does not exceed; None where too few are known.

        Args:
            share: from 0 to 1.
            guess: of the job.
            elapsed: seconds that it has run; its run time is longer.

        """
        known = self._known.get((guess, elapsed))
        if known is None:
            known = self._known[guess, elapsed] = sorted(self._like(guess, elapsed))
        return max(known[min(int(share * len(known)), len(known) - 1)], 1.0) if known else None

    def _like(self, guess: Guess, elapsed: float) -> list[float]:
        """Run times that the jobs most like it would have had; empty where there are too few."""
        if len(self.ran) < _LEAST:
            return []
        if self._table is None:
            self._table = np.array(self.ran, dtype=np.float64)
        table = self._table
        seconds, limit, shown, gpus = table.T
        by_limit, by_shown = guess.limit > 0, guess.shown > 0
        if by_limit and by_shown and np.count_nonzero((limit > 0) & (shown > 0)) < _LEAST:
            by_limit = bool(np.count_nonzero(limit > 0) >= _LEAST)
            by_shown = not by_limit
        chosen = ((limit > 0) | (not by_limit)) & ((shown > 0) | (not by_shown))
        if np.count_nonzero(chosen) < _LEAST:
            return []
        seconds, limit, shown, gpus = table[chosen].T
        distance = _SIZE_WEIGHT * np.abs(np.log2(1 + gpus) - np.log2(1 + guess.gpus))
        scale = np.ones(len(seconds))
        if by_limit:
            distance += np.abs(np.log(limit) - np.log(guess.limit))
        if by_shown:
            distance += np.abs(np.log(shown) - np.log(guess.shown))
        if by_limit and by_shown:
            scale = min(guess.limit, guess.shown) / np.minimum(limit, shown)
        elif by_limit or by_shown:
            scale = guess.limit / limit if by_limit else guess.shown / shown
        possible = seconds * scale
        if guess.limit > 0:  # no job runs further beyond its limit than earlier ones have
            beyond = np.where(limit > 0, np.maximum(seconds / np.maximum(limit, 1e-9), 1.0), 1.0)
            possible = np.minimum(possible, guess.limit * beyond)
        alive = possible > elapsed
        if np.count_nonzero(alive) < _SURVIVORS:
            return []
        distance, possible = distance[alive], possible[alive]
        nearest = np.argsort(distance, kind="stable")[: max(_LEAST, int(_LIKE * len(seconds)))]
        return [float(value) for value in possible[nearest]]


class Draws:
    """Run times of one possible future.

    Runs of one kind are long or short together: some of the variance is common to all of a kind. Were they drawn one by
    one, the end of a hundred runs of one program would seem to be known well.

    Args:
        spread: of run times around guesses.
        random_: the source of chance.
    """

    def __init__(self, spread: Spread, random_: random.Random) -> None:
        self._spread, self._random = spread, random_
        self._common: dict[Hashable, float] = {}

    def run_time(self, kind: Hashable, guess: Guess, elapsed: float) -> float:
        """A possible run time in all of a job that has run for so many seconds; it is not over yet."""
        common = self._common.get(kind)
        if common is None:
            common = self._common[kind] = self._random.gauss(0.0, 1.0)
        share = _NORMAL.cdf(sqrt(_COMMON) * common + sqrt(1 - _COMMON) * self._random.gauss(0.0, 1.0))
        known = self._spread.at(share, guess, elapsed)
        return max(_general(self._random, guess, elapsed), 1.0) if known is None else known


def _general(random_: random.Random, guess: Guess, elapsed: float) -> float:
    """A run time by what holds in general."""
    if guess.limit > elapsed and guess.stated:
        return random_.uniform(elapsed, guess.limit)
    for _ in range(_LEAST):
        value = guess.seconds * random_.lognormvariate(0.0, 0.4 if guess.known else 1.5)
        if value > elapsed:
            return min(value, guess.limit) if guess.limit > elapsed else value
    # As long again, give or take: what has lasted lasts.
    later = elapsed / max(1.0 - random_.random(), 0.05)
    return min(later, guess.limit) if guess.limit > elapsed else later


def to_earlier(runs: Iterable[tuple[Hashable, float]]) -> list[float]:
    """For each run the mean of the last two of its kind, 0.0 for the first.

    Args:
        runs: kinds and seconds, oldest first.

    """
    before: dict[Hashable, tuple[float, ...]] = {}
    found: list[float] = []
    for kind, seconds in runs:
        last = before.get(kind, ())
        found.append(sum(last) / len(last) if last else 0.0)
        before[kind] = (*last[-1:], seconds)
    return found


def as_guessed(_: Hashable, guess: Guess, _elapsed: float) -> float:
    """The guess itself."""
    return guess.seconds


def as_stated(_: Hashable, guess: Guess, _elapsed: float) -> float:
    """What is stated, as a scheduler that goes by limits takes it."""
    return guess.limit or guess.seconds
