"""What is remembered of how waiting HyperJobs spread: the set of clusters that is tried, and when another is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from unisono.api.groups.batch import HyperJob, Job, ReplicatedJob
from unisono.api.keys import JOB_NAME
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.controllers.hyperjob.decide import BY_REPLICATED_JOB, MOST_PARTS, accelerated_pods, split_of
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.record import GangRecord
from unisono.fleet.hyper_jobs.work import clusters_of
from unisono.fleet.reasons import room_by_member

# Over how many clusters a HyperJob spreads: sets of clusters for ``maxDomains``, parts for ``mode: auto`` (pure).

MOST_SETS: Final = 256
"""Sets of clusters that are tried in turn."""


def domain_set(
    most: int, fixed: Collection[str], room: Mapping[str, int], bounds: Sequence[Collection[str]], attempt: int
) -> tuple[str, ...] | None:
    """The clusters that the waiting parts may use, so that all parts are in ``most`` clusters or fewer.

    Sets with more room come first; with each attempt the next one is tried, and after the last the first again.

    Args:
        most: clusters that may be used.
        fixed: clusters that have parts already.
        room: clusters that take work, and how many pods each has room for.
        bounds: clusters that may have a part, for each part with such a bound.
        attempt: how many sets were tried before.

    Returns:
        the set; None where every set is allowed. An empty set means that no set can have all parts.

    """
    others = sorted((name for name in room if name not in fixed), key=lambda name: (-room[name], name))
    if len(others) + len(set(fixed)) <= most:
        return None
    free = max(0, most - len(set(fixed)))
    sets = [
        tuple(sorted({*fixed, *chosen}))
        for chosen in islice(combinations(others, free), MOST_SETS)
        if all(not bound or not {*fixed, *chosen}.isdisjoint(bound) for bound in bounds)
    ]
    return sets[attempt % len(sets)] if sets else ()


def number_of_parts(pods: int, most: int, room: Mapping[str, int], empty: Mapping[str, int]) -> int:
    """The fewest parts of equal size that find room, one or several in a cluster.

    Args:
        pods: of all parts together.
        most: parts at most.
        room: pods that each cluster has room for now.
        empty: the same if it were empty; counts where what is free now does not do.

    """
    for places in (room, empty):
        for parts in range(1, min(most, pods, MOST_PARTS) + 1):
            size = -(-pods // parts)
            if sum(each // size for each in places.values()) >= parts:
                return parts
    return 1


PATIENCE: Final = 30.0
"""Seconds that one set of clusters, or one number of parts, is tried."""
_NOWHERE: Final = ("",)


@dataclass(slots=True)
class _Trial:
    key: str
    attempt: int = 0
    until: float = 0.0
    clusters: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """What follows from one look.

    Attributes:
        split: parts by replicated job, where they are to change.
        moved: the clusters for the waiting parts have changed.
        again: look again after so many seconds.

    """

    split: Mapping[str, int] | None = None
    moved: bool = False
    again: float | None = None


class Spreading:
    """Sets of clusters for HyperJobs with ``maxDomains``, and numbers of parts for those with ``mode: auto``."""

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._trials: dict[str, _Trial] = {}

    def forget(self, key: str) -> None:
        """A HyperJob is gone."""
        for uid in [uid for uid, trial in self._trials.items() if trial.key == key]:
            del self._trials[uid]

    def within(self, uid: str, bound: Sequence[str]) -> tuple[str, ...]:
        """Clusters that may have a part, of those that its ``clusterNames`` allow; empty for all."""
        trial = self._trials.get(uid)
        if trial is None or trial.clusters is None:
            return tuple(bound)
        found = tuple(each for each in trial.clusters if not bound or each in bound)
        return found or _NOWHERE

    def look(self, hyper_job: HyperJob, group: str, live: Mapping[str, Job], record: GangRecord, now: float) -> Spread:
        """Choose for what waits.

        Raises:
            SplitError: a split policy cannot be followed.

        """
        uid = hyper_job.metadata.uid or ""
        placed = {name: place.cluster for name, place in record.parts.items() if name in live}
        waiting = [job for name, job in live.items() if name not in placed]
        spreads = (hyper_job.spec.max_domains or 0) > 1 or _is_auto(hyper_job)
        if not waiting or not spreads:
            return Spread()
        trial = self._trials.setdefault(uid, _Trial(hyper_job.key))
        if now < trial.until:
            return Spread(again=trial.until - now)
        trial.until = now + PATIENCE
        tasks = self._tasks(hyper_job, group)
        split = None if placed else self._split(hyper_job, tasks)
        moved = self._choose(hyper_job, trial, set(placed.values()), waiting, tasks)
        return Spread(split, moved, PATIENCE)

    def _choose(
        self, hyper_job: HyperJob, trial: _Trial, fixed: set[str], waiting: Sequence[Job], tasks: Sequence[Task]
    ) -> bool:
        most, before = hyper_job.spec.max_domains or 0, trial.clusters
        if most < 2 or not tasks:
            return False
        room = self._room(tasks[0].pod_class)
        named = clusters_of(hyper_job)
        bounds = [named.get((job.metadata.labels or {}).get(BY_REPLICATED_JOB, ""), ()) for job in waiting]
        free = {name: now for name, (now, _) in room.items()}
        trial.clusters = domain_set(most, fixed, free, bounds, trial.attempt)
        trial.attempt += 1
        return trial.clusters != before

    def _split(self, hyper_job: HyperJob, tasks: Sequence[Task]) -> Mapping[str, int] | None:
        """Parts of each replicated job with ``mode: auto``; None where they are what they should be."""
        before = split_of(hyper_job)
        found = dict(before)
        for replicated in hyper_job.spec.replicated_jobs or ():
            pods = accelerated_pods(replicated)
            pod_class = _class_of(hyper_job, replicated, tasks) if pods else None
            if not pods or pod_class is None:
                continue
            allowed = replicated.cluster_names or ()
            room = {name: each for name, each in self._room(pod_class).items() if not allowed or name in allowed}
            most = hyper_job.spec.max_domains or max(len(room), 1)
            found[replicated.name] = number_of_parts(
                pods,
                most,
                {name: now for name, (now, _) in room.items()},
                {name: ever for name, (_, ever) in room.items()},
            )
        return found if found != dict.fromkeys(found, 1) | before else None

    def _room(self, pod_class: PodClass) -> dict[str, tuple[int, int]]:
        return room_by_member(self._state.feed.state.nodes, pod_class)

    def _tasks(self, hyper_job: HyperJob, group: str) -> list[Task]:
        job = self._state.feed.state.book.jobs.get(f"{hyper_job.metadata.namespace}/{group}")
        return list(job.tasks.values()) if job is not None else []


def _is_auto(hyper_job: HyperJob) -> bool:
    return any(accelerated_pods(each) for each in hyper_job.spec.replicated_jobs or ())


def _class_of(hyper_job: HyperJob, replicated: ReplicatedJob, tasks: Sequence[Task]) -> PodClass | None:
    """Class of the pods that use the accelerators."""
    first = f"{hyper_job.metadata.name}-{replicated.name}-0"
    kind = (replicated.split_policy.accelerator_type if replicated.split_policy is not None else None) or ""
    own = (task.pod_class for task in tasks if task.labels.get(JOB_NAME) == first)
    return next((each for each in own if each.requests.get(kind)), None)
