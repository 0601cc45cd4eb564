"""What a live cluster's past says of what may come: how long jobs run, and which jobs will arrive."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.pod_states import has_ended
from unisono.api.selecting import pod_group_name
from unisono.api.times import parse_time
from unisono.cluster.recent import RunTimes, beginning, ended_at, family_of, ran_seconds
from unisono.cluster.state import ClusterState
from unisono.engine.answers import FloatArray
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.session.session import Session
from unisono.simulator.forecast.live import Guess, LiveObjects, Possible, guess_of, kind_of, workload_job
from unisono.simulator.workload.job import MOST_PODS, Job

# Possible run times of a job: how long jobs like it have run, for as far as it has come already.

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
        run_times = self._known.get((guess, elapsed))
        if run_times is None:
            run_times = self._known[guess, elapsed] = sorted(self._like(guess, elapsed))
        return max(run_times[min(int(share * len(run_times)), len(run_times) - 1)], 1.0) if run_times else None

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
        drawn = self._spread.at(share, guess, elapsed)
        return max(_general(self._random, guess, elapsed), 1.0) if drawn is None else drawn


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
    means: list[float] = []
    for kind, seconds in runs:
        last = before.get(kind, ())
        means.append(sum(last) / len(last) if last else 0.0)
        before[kind] = (*last[-1:], seconds)
    return means


def as_guessed(_: Hashable, guess: Guess, _elapsed: float) -> float:
    """The guess itself."""
    return guess.seconds


def as_stated(_: Hashable, guess: Guess, _elapsed: float) -> float:
    """What is stated, as a scheduler that goes by limits takes it."""
    return guess.limit or guess.seconds


_LOOK_BACK = 2 * 86400.0
"""Seconds before now of which arrivals are taken."""
_LEAST_ARRIVALS = 20
"""With fewer nothing is known of those that will come."""
_SHORTEST = 1800.0
"""Seconds of the past of which arrivals are taken, at least: a moment's rush does not last."""
_MOST_ARRIVALS = 20_000
_MOST_RAN = 2000
"""Jobs that have ended whose run times count, the last ones."""
_BLOCKS = 8.0
"""Into so many pieces the past is cut in the mean, when a possible future is put together from it."""


@dataclass(frozen=True, slots=True)
class Come:
    """A job that came: seconds from now (below 0), its body, and its run time (None: it has not ended)."""

    at: float
    body: Job
    seconds: float | None
    guess: Guess
    elapsed: float


@dataclass(frozen=True)
class Past:
    """Jobs of a cluster's past.

    Attributes:
        spread: of run times around guesses.
        came: jobs that came, oldest first.
        since: seconds before now since when all that came are known; 0.0 where that is never.
        over: keys of PodGroups all of whose pods have ended.
        run_times: as they can be learnt from it.
    """

    spread: Spread = field(default_factory=Spread)
    came: Sequence[Come] = ()
    since: float = 0.0
    over: frozenset[str] = frozenset()
    run_times: RunTimes | None = None

    @cached_property
    def recent(self) -> list[Come]:
        """Jobs that came since then."""
        return [each for each in self.came if each.at > -self.since]

    def arrivals(self, draw: random.Random, until: float, possible: Possible) -> list[Job]:
        """Jobs that may come within so many seconds: pieces of the past in random order.

        Those that have not ended get a ``possible`` run time.

        Pieces begin anywhere and have random lengths (the stationary bootstrap: D. Politis and J. Romano, JASA 89,
        1994), so that jobs that came together come together again, and busy times are as long as they were.
        """
        recent, length = self.recent, self.since
        if len(recent) < _LEAST_ARRIVALS or length < _SHORTEST:
            return []
        coming: list[Job] = []
        at = 0.0
        while at < until and len(coming) < _MOST_ARRIVALS:
            begin = -draw.random() * length
            piece = min(draw.expovariate(_BLOCKS / length), until - at)
            coming += self._piece(possible, begin, piece, at, len(coming))
            at += piece
        return coming

    def _piece(self, possible: Possible, begin: float, piece: float, at: float, number: int) -> list[Job]:
        """Jobs of the past from ``begin`` on, moved to ``at``; behind now it goes on with the oldest."""
        jobs: list[Job] = []
        for lap in range(int(piece // self.since) + 2):
            for each in self.recent:
                later = each.at - begin + lap * self.since
                if 0 <= later < piece and number + len(jobs) < _MOST_ARRIVALS:
                    seconds = each.seconds or possible(kind_of(each.body), each.guess, each.elapsed)
                    name = f"{beginning(each.body.name)}-00000000-0000-4000-8000-{number + len(jobs):012d}"
                    jobs.append(replace(each.body, name=name, submit=at + later, run_seconds=seconds))
        return jobs


def past_of(objects: LiveObjects, now: float, run_times: RunTimes | None = None) -> Past:
    """What the objects of a cluster tell of its past.

    Args:
        objects: of the cluster.
        now: seconds since 1970.
        run_times: how long jobs of one kind have run, as the scheduler has learnt it.
    """
    state = objects.state(run_times)
    estimates = RunEstimates(Session(state.snapshot(), now, 0), learned=True)
    groups: dict[str, PodGroup] = {group.key: group for group in objects.of("PodGroup")}
    members: dict[str, list[Pod]] = {}
    for pod in objects.of("Pod"):
        name = pod_group_name(pod.metadata.annotations, pod.spec)
        if name and pod.key in state.tasks:
            members.setdefault(f"{pod.metadata.namespace}/{name}", []).append(pod)
    came, ends = [], []
    over = {key for key, pods in members.items() if all(has_ended(pod) for pod in pods)}
    for key, pods in members.items():
        if len(pods) <= MOST_PODS:
            came.append(_come(groups.get(key), pods, state, estimates, now, over=key in over))
            if key in over and (end := max(ended_at(pod) for pod in pods)):
                ends.append(end)
    came.sort(key=lambda each: (each.at, each.body.name))
    since = min(max(now - min(ends), 0.0), _LOOK_BACK) if ends else 0.0
    return Past(Spread(_ran(members, state, estimates)), came, since, frozenset(over), state.run_times)


def _come(
    group: PodGroup | None, pods: list[Pod], state: ClusterState, estimates: RunEstimates, now: float, *, over: bool
) -> Come:
    tasks = [state.tasks[pod.key] for pod in pods]
    guess = guess_of(pods, tasks, estimates)
    begun = [task.since or task.created for task in tasks if task.node]
    elapsed = max(now - max(begun), 0.0) if begun else 0.0
    seconds = max((ended_at(pod) for pod in pods), default=0.0) - max(begun, default=0.0) if over and begun else None
    created = _created(group, pods, now)
    return Come(created - now, workload_job(group, pods, guess), max(seconds, 1.0) if seconds else None, guess, elapsed)


def _created(group: PodGroup | None, pods: Sequence[Pod], now: float) -> float:
    stamps = [each.metadata.creation_timestamp for each in (*((group,) if group else ()), *pods)]
    times = []
    for stamp in stamps:
        try:
            times.append(parse_time(stamp) if stamp else now)
        except ValueError:
            continue
    return min(times, default=now)


def _ran(members: dict[str, list[Pod]], state: ClusterState, estimates: RunEstimates) -> list[Ran]:
    """Jobs of which pods have succeeded, in the order of their ends; a gang has run for as long as its longest pod."""
    finished = []
    for key, pods in members.items():
        longest = max(((ran_seconds(pod, state.tasks[pod.key]), pod.metadata.name) for pod in pods), default=(0.0, ""))
        if longest[0]:
            tasks = [state.tasks[pod.key] for pod in pods]
            longest_task = next(task for pod, task in zip(pods, tasks, strict=True) if pod.metadata.name == longest[1])
            limit = max(estimates.stated(task) for task in tasks)
            gpus = guess_of(pods, tasks, estimates).gpus
            finished.append((max(map(ended_at, pods)), key, family_of(longest_task), longest[0], limit, gpus))
    finished = sorted(finished, key=lambda each: each[:2])[-_MOST_RAN:]
    shown = to_earlier((family, seconds) for _, _, family, seconds, _, _ in finished)
    return [Ran(each[3], each[4], earlier, each[5]) for each, earlier in zip(finished, shown, strict=True)]
