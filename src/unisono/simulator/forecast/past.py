"""What a live cluster's past says of what may come: how long jobs run, and which jobs will arrive.

Objects of jobs that have ended tell it, for as long as they are there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from unisono.api.core import Pod
from unisono.api.membership import pod_group_name
from unisono.api.pod_states import has_ended
from unisono.api.scheduling import PodGroup
from unisono.api.times import parse_time
from unisono.cluster.run_durations import RunTimes, beginning, ended_at, family_of, ran_seconds
from unisono.cluster.state import ClusterState
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.session.session import Session
from unisono.simulator.forecast.live import Guess, LiveObjects, Possible, guess_of, kind_of, workload_job
from unisono.simulator.forecast.run_times import Ran, Spread, to_earlier
from unisono.simulator.workload.job import MOST_PODS, Job

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
    def _recent(self) -> list[Come]:
        return [each for each in self.came if each.at > -self.since]

    def arrivals(self, draw: random.Random, until: float, possible: Possible) -> list[Job]:
        """Jobs that may come within so many seconds: pieces of the past in random order.

        Those that have not ended get a ``possible`` run time.

        Pieces begin anywhere and have random lengths (the stationary bootstrap: D. Politis and J. Romano, JASA 89,
        1994), so that jobs that came together come together again, and busy times are as long as they were.
        """
        recent, length = self._recent, self.since
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
        found: list[Job] = []
        for lap in range(int(piece // self.since) + 2):
            for each in self._recent:
                later = each.at - begin + lap * self.since
                if 0 <= later < piece and number + len(found) < _MOST_ARRIVALS:
                    seconds = each.seconds or possible(kind_of(each.body), each.guess, each.elapsed)
                    name = f"{beginning(each.body.name)}-00000000-0000-4000-8000-{number + len(found):012d}"
                    found.append(replace(each.body, name=name, submit=at + later, run_seconds=seconds))
        return found


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
    found = []
    for key, pods in members.items():
        longest = max(((ran_seconds(pod, state.tasks[pod.key]), pod.metadata.name) for pod in pods), default=(0.0, ""))
        if longest[0]:
            tasks = [state.tasks[pod.key] for pod in pods]
            longest_task = next(task for pod, task in zip(pods, tasks, strict=True) if pod.metadata.name == longest[1])
            limit = max(estimates.stated(task) for task in tasks)
            gpus = guess_of(pods, tasks, estimates).gpus
            found.append((max(map(ended_at, pods)), key, family_of(longest_task), longest[0], limit, gpus))
    found = sorted(found, key=lambda each: each[:2])[-_MOST_RAN:]
    shown = to_earlier((family, seconds) for _, _, family, seconds, _, _ in found)
    return [Ran(each[3], each[4], earlier, each[5]) for each, earlier in zip(found, shown, strict=True)]
