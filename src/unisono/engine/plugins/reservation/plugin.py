"""reservation: the gang that has waited longest is kept room for, and others may use it only without delaying it.

Off unless configured, because Volcano would give the room away. A gang that needs more than is ever free at one moment
starves while small jobs keep coming: each takes what the one before it has freed. Once such a gang has waited long
enough, nodes are chosen for it, and jobs that come after it may start there only when they end before it could start
(run times as pods state them, or as earlier runs show), or when they use what it does not need. This is EASY backfill,
see A. Mu'alem and D. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 12 (2001).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from unisono.api.times import duration_or_none
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.cluster.waiting_jobs import Alike, Entry
from unisono.engine.answers import Parts, Reason, Scope, Veto, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.reservation.plan import Plan, plan_for
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import Limit
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.run_times import RUNS, RunEstimates
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import runs
from unisono.engine.verdict import Cause, reference

# Room in a queue for a waiting gang: whether the queue could ever hold it, and who must leave room for it there.


@dataclass(frozen=True, slots=True)
class QueueRoom:
    """What a gang lacks in its queue while others hold it.

    Attributes:
        queue: its queue.
        rows: resource rows of which the queue's share has too little left; what becomes free of them is kept for it.
        limits: those of the gang, its queue and the queues above it, of which too little is left, with the rows.
    """

    queue: QueueState
    rows: frozenset[int]
    limits: tuple[tuple[Limit, frozenset[int]], ...]

    def kept_from(self, job: JobState, pod_class: PodClass) -> bool:
        """Whether pods of the class would take room from the gang, in its queue or below one of the limits."""
        asked = pod_class.rows.tolist()
        if job.queue is self.queue and not self.rows.isdisjoint(asked):
            return True
        return any(limit in job.limits and not rows.isdisjoint(asked) for limit, rows in self.limits)


def room_in_queue(session: Session, job: JobState, tasks: Sequence[Task]) -> QueueRoom | None:
    """What must become free in the job's queue for ``tasks``; None where the queue can never hold them.

    What the queue itself holds counts as room to come: its pods end as those on the nodes do.
    """
    queue = job.queue
    need = np.zeros(session.rows, dtype=np.int64)
    for run in runs(list(tasks)):
        need += fitted(run[0].pod_class.vector, session.rows) * len(run)
    need[PODS] = 0
    room = session.book.shares.room(queue)
    free = None if room is None else fitted(room, session.rows)
    if free is not None and (free + fitted(queue.claimed, session.rows) < need)[need > 0].any():
        return None
    rows = _short(need, free) if free is not None else frozenset[int]()
    limits: list[tuple[Limit, frozenset[int]]] = []
    for limit in job.limits:
        asked = {row: int(need[row]) for row in limit.most if row < len(need) and need[row] > 0}
        if any(amount > limit.most[row] for row, amount in asked.items()):
            return None
        left = {row: limit.most[row] - int(limit.held[row]) - int(limit.leaving[row]) for row in asked}
        short = frozenset(row for row, amount in asked.items() if amount > left[row])
        if short:
            limits.append((limit, short))
    return QueueRoom(queue, rows, tuple(limits))


def _short(need: Vector, free: Vector) -> frozenset[int]:
    return frozenset(np.flatnonzero((need > 0) & (need > free)).tolist())


# Gangs that cannot start and have waited long, those that come first in line first.

_Place = tuple[int, float, str]
_Needs = tuple[float, list[Task]]
_Behind = Iterator[Entry] | None
_NONE: _Needs = (0.0, [])
_KNOWN = "reservation.needs"


class StarvedGangs:
    """Gangs that cannot start and have waited ``after`` seconds, with their missing tasks, as the session began.

    Those of the highest priority come first, then those that have waited longest, counted from their newest pod. Mostly
    only the first few are looked at, so the rest is not put in order. What a gang misses follows from its record
    alone, and is kept with it from session to session.
    """

    def __init__(self, session: Session, after: float) -> None:
        self._heap: list[tuple[_Place, JobState, _Behind]] = []
        self._first: list[tuple[JobState, list[Task]]] = []
        self._session, self._after = session, after
        self._open = {name for name, queue in session.queues.items() if queue.open}
        if after < inf:
            self._find()
        setbacks = session.snapshot.setbacks
        if setbacks:  # those may never start
            self._heap[:] = [entry for entry in self._heap if entry[1].key not in setbacks]
        heapq.heapify(self._heap)

    def _find(self) -> None:
        """All such gangs; of those that are alike the first one only, which has the others behind it."""
        session = self._session
        waiting = session.snapshot.waiting
        if waiting is None or session.snapshot.setbacks:
            for job in session.active:
                self._add(job, None)
            return
        for other in map(session.job, waiting.others):
            if other is not None:
                self._add(other, None)
        for alike in waiting.alike.values():
            record = session.snapshot.jobs[alike.sample]
            if record.phase != "Pending" and record.queue in self._open:
                self._add_next(iter(alike.sorted_by(_KNOWN, self._since)))

    def _add(self, job: JobState, behind: _Behind) -> bool:
        since, tasks = job.record.derived.get(_KNOWN) or _needs(job)
        if not tasks or self._session.now - since < self._after or job.queue.name not in self._open:
            return False
        self._heap.append(((-job.priority, since, job.key), job, behind))
        return True

    def _add_next(self, behind: Iterator[Entry]) -> bool:
        """Add the next of gangs that are alike; where it has not waited long enough, none behind it has."""
        for _, key in behind:
            job = self._session.job(key)
            return job is not None and self._add(job, behind)
        return False

    def _since(self, key: str) -> float:
        job = self._session.job(key)
        since, tasks = _needs(job) if job is not None else _NONE
        return since if tasks else inf

    def __bool__(self) -> bool:
        return bool(self._heap or self._first)

    def __iter__(self) -> Iterator[tuple[JobState, list[Task]]]:
        at = 0
        while True:
            while at < len(self._first):
                yield self._first[at]
                at += 1
            if not self._heap:
                return
            _, job, behind = heapq.heappop(self._heap)
            self._first.append((job, job.record.derived[_KNOWN][1]))
            if behind is not None and self._add_next(behind):
                heapq.heapify(self._heap)


def _needs(job: JobState) -> _Needs:
    """Since when the gang waits, and for which tasks; none where it does not."""
    needs = _NONE
    if job.record.phase != "Pending" and not job.is_ready and job.valid_count >= job.min_member:
        tasks = _missing(job)
        if tasks:
            needs = max(task.created for task in tasks), tasks
    job.record.derived[_KNOWN] = needs
    return needs


def _missing(job: JobState) -> list[Task] | None:
    """The tasks that the gang needs to start; None where more than resources, labels and taints decides where."""
    tasks = [task for task in job.record.pending.values() if not task.gated and task.owned and not task.best_effort]
    number = job.min_member - job.ready_count - job.pending_best_effort
    if number < 1 or len(tasks) < number or job.record.topology is not None or job.record.sub_groups:
        return None
    for task in tasks:
        pod_class = task.pod_class
        if pod_class.base is not pod_class or pod_class.host_ports or pod_class.notes:
            return None
    tasks.sort(key=lambda task: (-task.priority, task.ordinal, task.created, task.key))
    by_role = [task for role, need in sorted(job.min_task_member.items()) for task in _of_role(job, tasks, role, need)]
    chosen = {task.key: task for task in (*by_role, *tasks)}
    return list(chosen.values())[: max(number, len(by_role))]


def _of_role(job: JobState, tasks: list[Task], role: str, need: int) -> list[Task]:
    counts = job.role_counts(role)
    pending = counts[TaskStatus.PENDING]
    held = sum(counts) - pending
    return [task for task in tasks if task.role == role][: max(need - held, 0)]


_AFTER = Argument("reservation.after", "duration", "5m", "how long a gang must have waited before room is kept for it")
_GANGS = Argument("reservation.gangs", "int", 1, "gangs for which room is kept at a time, the longest waiting first")
_LEARN = Argument(
    "reservation.learnRunTimes", "bool", False, "expect jobs to run as long as the last two of their kind have"
)

_MOST_TRIED = 16
"""Starved gangs looked at in one cycle."""


class ReservationPlugin(Plugin):
    """Keeps room for starved gangs."""

    name = "reservation"
    permits_only = True
    known_arguments = (_AFTER, _GANGS, _LEARN)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        after = duration_or_none(argument_value(_AFTER, self.arguments))
        self.after = max(after if after is not None else 300.0, 0.0)
        self.gangs = max(int(argument_value(_GANGS, self.arguments)), 0)
        self.learn = bool(argument_value(_LEARN, self.arguments))

    def open(self, session: Session) -> None:
        """Find the gangs that have waited too long; without any the plug-in says nothing in this session."""
        self.session = session
        self.estimates = RunEstimates(session, learned=self.learn)
        self.starved = StarvedGangs(session, self.after if self.gangs else inf)
        if self.starved:
            self.scope = Scope.JOB  # type: ignore[misc]  # wide only where it matters: it costs the sharing of answers

        self._rooms: dict[str, QueueRoom] = {}
        self._parts: dict[int, tuple[Plan, Parts]] = {}

    # ---- admission

    def enqueueable(self, job: JobState) -> Vote:
        """Permit a gang that has waited too long, unless it could never start: room is kept for it once it has pods."""
        session = self.session
        if job.min_resources is None or job.min_member < 1 or session.now - job.created < self.after:
            return Vote.ABSTAIN
        limits = job.queue.record.capability or {}
        registry = session.registry
        allowed = all(
            registry.row(name) == PODS or _asked(job, registry.row(name)) <= most for name, most in limits.items()
        )
        fits = bool((job.min_resources <= fitted(session.usable_total, len(job.min_resources))).all())
        return Vote.PERMIT if allowed and fits else Vote.ABSTAIN

    # ---- nodes

    @cached_property
    def plans(self) -> list[Plan]:
        """What is kept, for one gang after the other; made when every plug-in is open."""
        return self._planned([])

    def _planned(self, plans: list[Plan]) -> list[Plan]:
        """``plans`` and those for the next gangs that wait, as things stand now."""
        tried = 0
        for job, tasks in self.starved:
            if len(plans) == self.gangs or tried == _MOST_TRIED:
                break
            if job.is_ready or any(plan.job.queue is job.queue for plan in plans):
                continue
            tried += 1
            room = room_in_queue(self.session, job, tasks)
            if room is None:
                continue
            plan = plan_for(self.session, job, tasks, plans, self.estimates)
            if plan is not None:
                plans.append(plan)
                self._rooms[job.key] = room
        return plans

    def _follow(self, job: JobState) -> None:
        """Gangs have started for which room was kept: it is kept for the next ones, before others are served."""
        left = [plan for plan in self.plans if not plan.job.is_ready]
        first = next((one for one, _ in self.starved if not one.is_ready), None)
        if first is not job or left:  # nothing is kept from the first in line, which is about to be served
            self.plans = self._planned(left)

    def concerns(self, pod_class: PodClass) -> bool:
        """Only while room is kept."""
        return bool(self.starved) and bool(self.plans)

    def is_pure(self, pod_class: PodClass) -> bool:
        """Which node it is matters while room is kept."""
        return not self.concerns(pod_class)

    def answers_alike(self, pod_class: PodClass) -> str | None:
        """Which of the plans concern the subject; the queue is told apart anyway."""
        job = self.session.subject
        if job is None:
            return None
        heeded = self._heeded(job, pod_class)
        if len(heeded) == 1:
            return heeded[0].job.key
        return ",".join([plan.job.key for plan in heeded])

    def answers_in_parts(self, pod_class: PodClass, jobs: Alike) -> Parts | None:
        """Those that end before the gang can start for which room is kept, and the others."""
        job, plans = self.session.subject, self.plans
        if job is None or self.learn or len(plans) > 1 or any(plan.job.is_ready for plan in plans):
            return None
        if not plans or job.priority > plans[0].job.priority:
            return Parts("", (), "")
        plan = plans[0]
        cached = self._parts.get(jobs.kin)
        if cached is None or cached[0] is not plan:
            cached = self._parts[jobs.kin] = plan, self._divided(plan, pod_class, jobs)
        return cached[1]

    def _divided(self, plan: Plan, pod_class: PodClass, jobs: Alike) -> Parts:
        own = plan.job.created, plan.job.key
        there = plan.job.record.kin == jobs.kin
        if plan.start == inf:
            return Parts(plan.job.key, (own,) if there else (), "")
        now, records = self.session.now, self.session.snapshot.jobs
        place = f"{RUNS}.{self.estimates.stamp}"
        runs = jobs.sorted_by(place, lambda key: self.estimates.longest(records[key], pod_class) or inf)
        short = bisect_right(runs, plan.start, key=lambda entry: now + entry[0])
        if 2 * short > len(runs):
            longer = {(records[key].created, key) for _, key in runs[short:]} - {own}
            return Parts("", sorted(longer), plan.job.key)
        shorter = {(records[key].created, key) for _, key in runs[:short]}
        return Parts(plan.job.key, sorted(shorter | {own} if there else shorter), "")

    def _heeded(self, job: JobState, pod_class: PodClass) -> list[Plan]:
        """Plans from which pods of the class may take nothing when they are the job's; asked once per waiting job."""
        for plan in self.plans:
            if plan.job.is_ready:
                self._follow(job)
                break
        heeded: list[Plan] = []
        if any(task.nominated_node and task.pod_class is pod_class for task in job.record.pending.values()):
            return heeded  # others were evicted for it: what they leave is its own
        ends = -1.0
        for plan in self.plans:
            other = plan.job
            if job is other:
                break  # those behind it in line may not keep anything from it
            if job.priority > other.priority or (job.ready_count and job.broken) or other.is_ready:
                continue
            if plan.start < inf:
                if ends < 0:
                    longest = self.estimates.longest(job.record, pod_class)
                    ends = self.session.now + longest if longest else inf
                if ends <= plan.start:
                    continue  # its pods have ended when the gang can start
            heeded.append(plan)
        return heeded

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Refuse room that is kept for others."""
        job = self.session.subject
        vetoes: list[Veto] = []
        for plan in self._heeded(job, pod_class) if job is not None else ():
            whose = reference(plan.job.key, "PodGroup")
            if job is not None and self._rooms[plan.job.key].kept_from(job, pod_class):
                name = plan.job.queue.name
                text = f"node(s) would take room of queue {name} that is kept for {whose}"
                vetoes.append(Veto(np.ones(len(nodes.columns), dtype=np.bool_), Reason(text, cause=Cause.RESERVED)))
                continue
            refused = ~plan.leaves(pod_class, nodes)
            vetoes.append(Veto(refused, Reason(f"node(s) were kept for {whose}", cause=Cause.RESERVED)))
        return vetoes


def _asked(job: JobState, row: int) -> int:
    return int(job.min_resources[row]) if job.min_resources is not None and row < len(job.min_resources) else 0
