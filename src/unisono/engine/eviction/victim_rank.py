"""Whether a victim could win its place back: then its eviction would be for nothing, and be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, FloatArray, Purpose, Veto
from unisono.engine.candidates.static_answers import StaticResult
from unisono.engine.candidates.table import NOWHERE, CandidateTable, Demand
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.orders import Key
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.engine.session.victims import VictimIndex

# Scores of all nodes for a class of tasks, as if evictions could make room on every one of them.


class RoomDemand(Demand):
    """A demand for which evictions may make room."""

    def heeds(self, veto: Veto) -> bool:
        """Only those for good."""
        return veto.reason.unresolvable and not veto.now


class RoomTable(CandidateTable):
    """A table of candidates that looks at no resources, and only at vetoes that no eviction can change."""

    def __init__(self, pod_class: PodClass, session: Session, hooks: CombinedAnswers, static: StaticResult) -> None:
        super().__init__(RoomDemand(pod_class, future=True), session, hooks, static)
        self.single = None  # which looks at resources

    def fits(self, view: NodeView) -> npt.NDArray[np.bool_]:
        """Everywhere."""
        return np.ones(view.size, dtype=np.bool_)


# Which nodes to try first when least work shall be lost, and when further ones need not be tried.


class LossOrder:
    """What each evictable task would lose, as an order of nodes.

    A node's order is that of its cheapest victim: lowest priority of its job, then least lost. That is a lower bound of
    what all its victims together cost, so once a node costs no more than the next one's bound none can be cheaper.
    """

    def __init__(self, cycle: Cycle, index: VictimIndex) -> None:
        self.hooks = cycle.hooks
        self.index = index
        self._nodes = cycle.session.nodes.size
        self._lost: FloatArray = np.full(len(index), np.nan)
        levels, level = np.unique(index.jobs.priority, return_inverse=True)
        self._level_of = {int(priority): at for at, priority in enumerate(levels)}
        self._level: FloatArray = level.astype(np.float64)[index.job]
        self._step = 1.0
        self._bounds: FloatArray = np.zeros(self._nodes)

    def note(self, victim: Task) -> None:
        """A task was evicted or is back: what else its gang has to lose may differ now."""
        job = int(self.index.job[self.index.at(victim)])
        self._lost[self.index.of_job(job)] = np.nan

    def cheapest_first(self, points: FloatArray, lacking: BoolArray, mask: BoolArray) -> FloatArray:
        """``[N]`` points that put nodes where less is lost before others, and keep the order of those that are equal.

        Args:
            points: ``[N]`` finite, or ``-inf`` where there is no room to be made.
            lacking: ``[N]`` nodes where a pod has to go.
            mask: ``[T]`` who may go.

        """
        index = self.index
        chosen = np.flatnonzero(mask & index.alive)
        for at in chosen[np.isnan(self._lost[chosen])].tolist():
            self._lost[at] = self.hooks.lost_work((index.tasks[at],)) or 0.0
        self._step = 1.0 + float(self._lost[chosen].sum())
        bounds = self._bounds = np.full(self._nodes, np.inf)
        np.minimum.at(bounds, index.column[chosen], self._level[chosen] * self._step + self._lost[chosen])
        bounds[~lacking] = -1.0
        possible = points > NOWHERE
        found = np.full(len(points), NOWHERE)
        if possible.any():
            ranks = np.unique(bounds[possible], return_inverse=True)[1]
            found[possible] = points[possible] - ranks * (float(np.ptp(points[possible])) + 1.0)
        return found

    def bound(self, column: int) -> float:
        """No victims on the node cost less than this, by the last `cheapest_first`."""
        return float(self._bounds[column])

    def cost(self, priority: int, victims: Sequence[Task]) -> float:
        """What victims cost, the highest priority of their jobs first; comparable with `bound`."""
        return self._level_of[priority] * self._step + (self.hooks.lost_work(victims) or 0.0)


@dataclass(frozen=True, slots=True)
class ActorRank:
    """Rank of a job that others may be evicted for, before it was promised anything: its rank in the next cycle.

    Attributes:
        job: who takes.
        queue_key, job_key: its queue's and its own.

    """

    job: JobState
    queue_key: Key
    job_key: Key

    @classmethod
    def of(cls, cycle: Cycle, job: JobState) -> ActorRank:
        """The rank of a job as it is now."""
        return cls(job, cycle.orders.queue_key(job.queue), cycle.orders.job_key(job))

    def served_before(self, cycle: Cycle, victim: JobState) -> bool:
        """Whether a job of the same queue that has just lost a task will be served later; tasks of one job always."""
        return victim is self.job or self.job_key < cycle.orders.job_key(victim)

    def holds_against(self, cycle: Cycle, taken: Task, lost: Task, victim: JobState) -> bool:
        """Whether ``victim``, of another queue, which lost the task ``lost`` for ``taken``, cannot take it back.

        Its queue comes later, or has no room for the task, or may not reclaim for it, or may not reclaim from this one.
        """
        hooks, pod_class = cycle.hooks, lost.pod_class
        if (
            self.queue_key < cycle.orders.queue_key(victim.queue)
            or not self._has_room(cycle, victim, lost)
            or hooks.overused(victim.queue) is not None
            or hooks.first("preemptive", victim.queue, [pod_class]) is not None
        ):
            return True
        if not taken.preemptable or not self.job.queue.record.reclaimable:
            return True
        return not hooks.victims(victim, lost, [taken], Purpose.RECLAIM).any()

    @staticmethod
    def _has_room(cycle: Cycle, victim: JobState, lost: Task) -> bool:
        """Whether the queue's quota lets it have the task again; limits of the victim itself are not counted upon."""
        session = cycle.session
        subject, session.subject = session.subject, None
        try:
            return cycle.hooks.headroom(victim.queue, lost.pod_class, 1) > 0
        finally:
            session.subject = subject
