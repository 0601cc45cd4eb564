"""Which running pods may be moved for a gang, and what each move costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.engine.answers import Purpose
from unisono.engine.config.model import PluginConfig
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.search import evictions_of
from unisono.engine.plugins.eviction_guard.lost_work import LostWork
from unisono.engine.plugins.pdb import PdbPlugin
from unisono.engine.session.bundles import bundles_of
from unisono.engine.session.job_state import JobState

RESTART_SECONDS = 60.0
"""What a restart costs at least, in seconds of the pod."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one plan may do.

    Attributes:
        moves: pods moved at most.
        run_seconds: a pod must have run for so long.
        lost_seconds: a pod that would lose more than that stays.
        domains: topology domains tried at most.

    """

    moves: int
    run_seconds: float
    lost_seconds: float
    domains: int


@dataclass(frozen=True, slots=True)
class Movable:
    """One pod that may be moved; ``cost`` is lost time by the share of the cluster that it holds."""

    task: Task
    column: int
    held: Vector
    lost_seconds: float
    cost: float


class MovablePods:
    """The pods that may be moved for one gang, by node column.

    A pod may be moved when a controller makes a new one for it, nothing protects it, it has run for long enough and
    would not lose too much, its job is no more important than the gang, and its own gang goes on without it: it is
    beyond that gang's minimum, or the only pod of its job.
    """

    def __init__(self, cycle: Cycle, actor: JobState, tasks: Sequence[Task], limits: Limits) -> None:
        self.cycle = cycle
        self.actor = actor
        self._priority = max((task.priority for task in tasks), default=0)
        self._lost = LostWork(cycle.session)
        self.on: dict[int, list[Movable]] = {}
        for task, column in self._spare(limits):
            held = fitted(task.pod_class.vector, cycle.session.rows)
            lost = self._lost.seconds(task)
            if lost <= limits.lost_seconds:
                cost = max(lost, RESTART_SECONDS) * self._lost.share(task.pod_class)
                self.on.setdefault(column, []).append(Movable(task, column, held, lost, cost))

    def _spare(self, limits: Limits) -> list[tuple[Task, int]]:
        cycle, now = self.cycle, self.cycle.session.now
        evictions = evictions_of(cycle)
        index = evictions.index
        may = index.alive & index.running & evictions.pool.unprotected(Purpose.DEFRAGMENT)
        found: list[tuple[Task, int, JobState]] = []
        for at in np.flatnonzero(may).tolist():
            task, job = index.tasks[at], index.jobs.states[int(index.job[at])]
            if (
                job is not self.actor
                and evictions.may_lose(job, None)
                and job.priority <= self.actor.priority
                and task.priority <= self._priority
                and task.remade
                and now - (task.since or task.created) >= limits.run_seconds
            ):
                found.append((task, int(index.column[at]), job))
        flat: list[tuple[Task, int]] = []
        for bundle in bundles_of(cycle.session, found):
            if bundle.safe or len(bundle.job.record.tasks) == 1:
                flat += bundle.tasks
        answers = cycle.hooks.victims(self.actor, None, [task for task, _ in flat], Purpose.DEFRAGMENT).tolist()
        return [pair for pair, yes in zip(flat, answers, strict=True) if yes]

    def within_budgets(self, tasks: Sequence[Task]) -> bool:
        """Whether all of them may go together by the PodDisruptionBudgets, whatever plug-ins are configured."""
        guard = PdbPlugin(PluginConfig("pdb"))
        guard.open(self.cycle.session)
        gone = [task for placement, _ in self.cycle.evicted for task in placement.tasks]
        kept = guard.retained([*gone, *tasks])
        return kept is None or not kept[len(gone) :].any()
