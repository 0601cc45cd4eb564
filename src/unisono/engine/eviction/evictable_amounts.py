"""What could be taken on each node for a task, and whether a victim could win its place back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.engine.answers import BoolArray, FloatArray, Purpose, Veto
from unisono.engine.candidates.static_answers import StaticResult
from unisono.engine.candidates.table import NOWHERE, CandidateTable, Demand
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.orders import Key
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import Amounts
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.protected_cores import Cores
from unisono.engine.session.session import Session
from unisono.engine.session.victims import VictimIndex

# Whether a victim could win its place back: then its eviction would be for nothing, and be repeated.


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
        ranked = np.full(len(points), NOWHERE)
        if possible.any():
            ranks = np.unique(bounds[possible], return_inverse=True)[1]
            ranked[possible] = points[possible] - ranks * (float(np.ptp(points[possible])) + 1.0)
        return ranked

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

        Its queue comes later, or has no room for the task, or may not reclaim for it, or may not reclaim from this one
        by any of the configured actions.
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
        if Purpose.GANG_RECLAIM.value in cycle.config.actions:
            keeps = KeptShares(cycle.session, lost.pod_class.rows.tolist())
            back = hooks.victims(victim, None, [taken], Purpose.GANG_RECLAIM)
            if back.any() and keeps.lets_go([taken], self.job):
                return False
        by_tasks = Purpose.RECLAIM.value in cycle.config.actions
        return not (by_tasks and hooks.victims(victim, lost, [taken], Purpose.RECLAIM).any())

    @staticmethod
    def _has_room(cycle: Cycle, victim: JobState, lost: Task) -> bool:
        """Whether the queue's quota lets it have the task again; limits of the victim itself are not counted upon."""
        session = cycle.session
        subject, session.subject = session.subject, None
        try:
            return cycle.hooks.headroom(victim, lost.pod_class, 1) > 0
        finally:
            session.subject = subject


# What could be taken on each node for a task: of the tasks that a rule concerns and no plug-in protects as a whole.


# Nodes that were tried in vain, so that the next equal task does not try them again.


class FailedNodes:
    """Nodes on which evictions make no room for the tasks of an actor, or of actors of one shape.

    They are kept by how many places the actor had been promised.

    The more an actor holds, and the more has been taken from others, the less it may take: a node that failed with
    fewer promises fails with more, until something changes on it. What failed amid evictions that are taken back later
    must be forgotten (`clear`).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._key: tuple[Any, ...] = ()
        self._masks: dict[int, BoolArray] = {}
        self._seen = 0

    def clear(self) -> None:
        """Forget everything."""
        self._masks.clear()

    def of(self, key: tuple[Any, ...], promised: int, touched: list[int]) -> BoolArray:
        """``[N]`` nodes not to try; ``touched`` is the session's log of changed columns."""
        if key != self._key:
            self._key = key
            self._masks.clear()
        fresh = touched[self._seen :]
        self._seen = len(touched)
        dead = np.zeros(self._size, dtype=np.bool_)
        for number, mask in self._masks.items():
            mask[fresh] = False
            if number <= promised:
                dead |= mask
        return dead

    def add(self, promised: int, column: int) -> None:
        """A node failed, under the key asked for last."""
        mask = self._masks.get(promised)
        if mask is None:
            mask = self._masks[promised] = np.zeros(self._size, dtype=np.bool_)
        mask[column] = True


# What reclaim leaves to queues: no pod goes for a resource of which its queue holds no more than its share.
#
# Plug-ins ask whether a queue holds more than it deserves of anything. A queue with little of a device and much of the
# processors beside it would lose the devices that it deserves.


class KeptShares:
    """Pods that could go, one after the other; each one that may counts as gone for the next.

    Args:
        session: knows what queues deserve.
        missing: rows of what has to be freed; the number of pods is no share. Where nothing else is missing, as on
            nodes that take no more pods or whose room is in pieces, queues go beyond their share of something.
    """

    def __init__(self, session: Session, missing: Iterable[int]) -> None:
        self._session = session
        self._rows = [row for row in missing if row != PODS]
        self._over: dict[str, dict[int, int]] = {}

    def lets_go(self, tasks: Sequence[Task], job: JobState) -> bool:
        """Whether the queue of these tasks, which go together, holds more than its share of all that they free."""
        over = self._over.get(job.queue.name)
        if over is None:
            over = self._over[job.queue.name] = self._beyond(job.queue)
        if not over:
            return True
        vectors = [task.pod_class.vector for task in tasks]
        freed = [(row, amount) for row in over if (amount := _amount(vectors, row))]
        within = [over[row] <= 0 for row, _ in freed]
        if within and (any(within) if self._rows else all(within)):
            return False
        for row, amount in freed:
            over[row] -= amount
        return True

    def _beyond(self, queue: QueueState) -> dict[int, int]:
        """What the queue holds beyond its share, by row; empty where nothing divides the cluster."""
        deserved = self._session.shared.of(_Deserved, lambda: _Deserved(self._session)).of(queue)
        rows = self._rows or [row for row in range(min(len(deserved), len(queue.claimed))) if row != PODS]
        return {row: queue.claimed.item(row) - deserved[row] for row in rows} if deserved else {}


class _Deserved:
    """What queues deserve, which does not change within a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, Amounts] = {}

    def of(self, queue: QueueState) -> Amounts:
        """By row; empty where no plug-in answers."""
        amounts = self._known.get(queue.name)
        if amounts is None:
            share_metrics = self._session.book.shares.metrics_of
            shares = share_metrics(queue) if share_metrics is not None else None
            amounts = self._known[queue.name] = [] if shares is None else list(shares.deserved)
        return amounts


def _amount(vectors: Sequence[Vector], row: int) -> int:
    """What these request together of one resource."""
    if len(vectors) == 1:  # as nearly always
        return vectors[0].item(row) if row < len(vectors[0]) else 0
    return sum(vector.item(row) for vector in vectors if row < len(vector))


def sum_of(session: Session, tasks: Sequence[Task]) -> Vector:
    """``[R]`` what tasks request together."""
    need = np.zeros(session.rows, dtype=np.int64)
    for task in tasks:
        need += fitted(task.pod_class.vector, len(need))
    return need


class Among(Enum):
    """Whose tasks may go."""

    QUEUE = "queue"
    """Other jobs of the same queue."""
    JOB = "job"
    """Other tasks of the same job."""
    OTHER_QUEUES = "other queues"
    """Running tasks of other queues that let themselves be reclaimed from."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action is after.

    Attributes:
        purpose: which switch guards the plug-ins' answers.
        among: whose tasks may go.
        scored: try nodes in order of their scores; else those first where least is missing.
        compared: how many nodes to compare by what their victims cost; 0 takes the first that works.
    """

    purpose: Purpose
    among: Among
    scored: bool
    compared: int = 0


@dataclass(slots=True)
class EvictableAmounts:
    """An upper bound of what can be freed.

    Attributes:
        key: what it depends on.
        mask: ``[T]`` the tasks, the actor's own included where its queue's are; evicted ones stay in.
        rows: per resource row ``[N]`` what those of them hold that are still there.
    """

    key: tuple[Any, ...]
    mask: BoolArray
    rows: dict[int, Vector]


class EvictableCache:
    """The evictable amounts that were asked for last, kept up to date through evictions and their undoing."""

    def __init__(self, index: VictimIndex, hooks: CombinedAnswers, rows: int, cores: Cores) -> None:
        self.index = index
        self.cores = cores
        self.hooks = hooks
        self._rows = rows
        self._last: EvictableAmounts | None = None
        self._free_to_go: dict[Purpose, BoolArray] = {}

    def of(self, actor: JobState, task: Task, rule: Rule) -> EvictableAmounts:
        """What could be taken for ``task``; the same object while the same tasks are concerned."""
        index = self.index
        bound = self.hooks.victim_jobs(actor, task, index.jobs, rule.purpose)
        own = actor.key if rule.among is Among.JOB else ""
        key = (rule.purpose, rule.among, actor.queue.name, own, task.best_effort, bound.tobytes())
        if self._last is None or self._last.key != key:
            mask = (bound & self._concerned(actor, rule))[index.job] & self.unprotected(rule.purpose)
            if rule.among is Among.OTHER_QUEUES:
                mask = mask & index.running
            if task.best_effort:
                mask = mask & index.best_effort
            self._last = EvictableAmounts(key, mask, {})
        return self._last

    def forget(self) -> None:
        """Sum up again when next asked: other actions have evicted or placed pods."""
        self._last = None

    def unprotected(self, purpose: Purpose) -> BoolArray:
        """``[T]`` tasks that no plug-in protects, and that their jobs and queues let go."""
        may_go = self._free_to_go.get(purpose)
        if may_go is None:
            if self.hooks.has("protected"):
                may_go = ~self.hooks.protected(self.index.tasks, purpose)
            else:
                may_go = np.ones(len(self.index), dtype=np.bool_)
            if self._kept is not None:
                may_go = may_go & ~self._kept
            self._free_to_go[purpose] = may_go
        return may_go

    @cached_property
    def _kept(self) -> BoolArray | None:
        """The same pods whatever for, also after some of the others have gone."""
        return self.cores.kept(self.index.tasks)

    def _concerned(self, actor: JobState, rule: Rule) -> BoolArray:
        """``[J]`` jobs whose tasks the rule lets go."""
        jobs = self.index.jobs
        if rule.among is Among.JOB:
            return np.array([job is actor for job in jobs.states], dtype=np.bool_)
        other = rule.among is Among.OTHER_QUEUES
        queues = [(q is not actor.queue and q.record.reclaimable) if other else q is actor.queue for q in jobs.queues]
        return np.array(queues, dtype=np.bool_)[jobs.queue]

    def row(self, evictable: EvictableAmounts, row: int) -> Vector:
        """``[N]`` amounts of one resource."""
        amounts = evictable.rows.get(row)
        if amounts is None:
            amounts = evictable.rows[row] = self.index.sums(evictable.mask & self.index.alive, row)
        return amounts

    def note(self, victim: Task, column: int, *, alive: bool) -> None:
        """A task was evicted, or is back."""
        at = self.index.at(victim)
        self.index.alive[at] = alive
        if self._last is not None and self._last.mask[at]:
            vector = fitted(victim.pod_class.vector, self._rows)
            for row, amounts in self._last.rows.items():
                amounts[column] += vector[row] if alive else -vector[row]
