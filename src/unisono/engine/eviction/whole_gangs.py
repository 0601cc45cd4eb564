"""Room for a whole gang in one domain: what gangpreempt and gangreclaim have in common.

Victims are chosen per domain, in bundles; as soon as enough would be free, it is tried out whether the gang's tasks
find places there. Nothing is evicted unless the gang gets all that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from unisono.api.keys import PREEMPTABLE
from unisono.cluster.hypertree import Index
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus, count
from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.evictable_amounts import ActorRank, KeptShares, sum_of
from unisono.engine.eviction.search import Evictions, evictions_of
from unisono.engine.eviction.starving_jobs import is_for_others, promises_hold, settle
from unisono.engine.placement.domain_search import search_of
from unisono.engine.placement.remaining_tasks import RemainingByGroup
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.session.choices import Choices, open_choice
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import groups_of, is_bounded
from unisono.engine.session.victims import Bundle, bundles_of, in_order

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_SPARED = 16
"""Bundles that are tried to be spared after a plan was found."""


@dataclass(frozen=True, slots=True)
class GangRule:
    """What an action is after.

    Attributes:
        purpose: GANG_PREEMPT (within the queue, from lower priorities) or GANG_RECLAIM (from other queues).
        most_domains: domains tried per job.
        whole: a gang may be evicted as a whole.
    """

    purpose: Purpose
    most_domains: int
    whole: bool


def serve(cycle: Cycle, job: JobState, rule: GangRule) -> bool:
    """Make room for one job; whether victims were chosen and all that it needs got a place on their resources.

    A gang gets room for all its tasks, or else for its minimum. What one that has its minimum wants besides is tried
    as a whole, then a pod of each class by itself.
    """
    tasks, surplus = wanted_tasks(cycle, job)
    if not tasks or any(task.never_preempts for task in tasks):
        return False
    least = len(tasks) if cycle.hooks.ready(job) else max(cycle.hooks.missing(job), 1)
    if any(_serve(cycle, job, rule, tasks, number) for number in dict.fromkeys((len(tasks), least))):
        return True
    alone: dict[int, Task] = {}
    for task in tasks if surplus and len(tasks) > 1 else ():
        alone.setdefault(task.pod_class.id, task)
    return any(_serve(cycle, job, rule, [task], 1) for task in alone.values())


def _serve(cycle: Cycle, job: JobState, rule: GangRule, tasks: list[Task], least: int) -> bool:
    """Make room for so many of the tasks at least, and for more of them where that much is free then."""
    classes = [task.pod_class for task in tasks[:least]]
    if rule.purpose is Purpose.GANG_RECLAIM and cycle.hooks.first("preemptive", job.queue, classes) is not None:
        return False
    cycle.session.subject = job
    choice = open_choice(cycle.session, job)
    plans = [_Plan(cycle, job, rule, tasks, least, domain) for domain in domains_to_try(cycle, job, rule, tasks)]
    mark, within_share = cycle.transaction.checkpoint(), cycle.hooks.overused(job.queue) is None

    def ways() -> Iterable[object]:
        return (None,) if choice is None else choice.each(alike=True)

    if any(plan.fits() for _ in ways() for plan in plans):
        return settle(cycle, evictions_of(cycle), job, mark, rule.purpose, within_share=within_share)
    if any(plan.carry_out() for _ in ways() for plan in plans):
        return True
    if choice is not None:
        choice.rest()
    return False


def wanted_tasks(cycle: Cycle, job: JobState) -> tuple[list[Task], bool]:
    """All pending tasks of a gang that is not ready, else those of its first sub-group that has any.

    A sub-group that is part of one that is not ready starts with that.

    Returns:
        the tasks, and whether the gang and its sub-groups have what they need without them.
    """
    tasks = cycle.pending(job, best_effort=False)
    if not cycle.hooks.ready(job):
        return tasks and tasks + cycle.pending(job, best_effort=True), False
    for group in groups_of(cycle.session, job):
        lacking = [each for each in group.lineage if not cycle.hooks.group_ready(each)]
        own = {task.key for task in (lacking or [group])[-1].tasks}
        mine = [task for task in tasks if task.key in own]
        if mine:
            return mine, not lacking
    return [], False


def domains_to_try(cycle: Cycle, job: JobState, rule: GangRule, tasks: Sequence[Task]) -> list[int]:
    """Domains to try: gradient by gradient, and of each those first where least is missing."""
    search = search_of(cycle)
    gradients = search.gradients(job, None, search.tree.root, evict=True)
    need = sum_of(cycle.session, tasks)
    flat = [domain for gradient in gradients for domain in _least_missing_first(cycle, need, gradient)]
    flat = flat[: rule.most_domains]
    return flat if flat or is_bounded(cycle.session, job) else [search.tree.root]


def _least_missing_first(cycle: Cycle, need: Vector, domains: Sequence[int]) -> list[int]:
    """Where most of what is needed is free, or will be, the fewest have to go; equal ones as they came."""
    rows, nodes = np.flatnonzero(need), cycle.session.nodes
    if len(domains) < 2 or not len(rows):
        return list(domains)
    later = nodes.allocatable[rows] - nodes.used[rows] + nodes.releasing[rows] - nodes.pipelined[rows]
    free = search_of(cycle).tree.sums_at(later.clip(min=0), list(domains))
    missing = (np.maximum(need[rows][:, None] - free, 0) / need[rows][:, None]).max(axis=0)
    return [domains[at] for at in np.argsort(missing, kind="stable").tolist()]


def _least_sum(cycle: Cycle, tasks: Sequence[Task], least: int) -> Vector:
    """``[R]`` no more than what any ``least`` of the tasks request together."""
    if least >= len(tasks):
        return sum_of(cycle.session, tasks)
    each = np.array([fitted(task.pod_class.vector, cycle.session.rows) for task in tasks])
    return np.asarray(np.sort(each, axis=0)[:least].sum(axis=0), dtype=np.int64)


class _Reversed:
    """A key that sorts the other way round."""

    __slots__ = ("key",)

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return other.key < self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and other.key == self.key

    __hash__ = None  # type: ignore[assignment]


class _Plan:
    """Victims and places in one domain."""

    def __init__(self, cycle: Cycle, job: JobState, rule: GangRule, tasks: list[Task], least: int, domain: int) -> None:
        self.cycle = cycle
        self.job = job
        self.rule = rule
        self.tasks = tasks
        self.domain = domain
        self.session = cycle.session
        self.evictions: Evictions = evictions_of(cycle)
        self.rank = ActorRank.of(cycle, job)
        self.need = _least_sum(cycle, tasks, least)
        self._classes = {task.pod_class for task in tasks}

    def fits(self) -> bool:
        """Whether nobody has to go; then all has a place that is free, or will be."""
        mark = self.cycle.transaction.checkpoint()
        if (self._free() >= self.need).all() and self._try([]) and self._is_enough():
            return True
        self.evictions.rollback(mark)
        return False

    def carry_out(self) -> bool:
        """Find a plan and commit it; False, and nothing changed, when there is none."""
        mark = self.cycle.transaction.checkpoint()
        chosen = self._choose()
        if not chosen:
            return False
        chosen = self._spare(chosen)
        works = self._try(chosen) and self._is_enough() and promises_hold(self.cycle, self.job, self.rule.purpose)
        if works and not is_for_others(self.cycle, self.evictions, self.job, mark, self.rule.purpose):
            self.cycle.commit(mark, self.job)
            return True
        self.evictions.rollback(mark)
        return False

    def _is_enough(self) -> bool:
        return self.cycle.hooks.vote("pipelined", self.job) is None

    # ---- victims

    def _choose(self) -> list[Bundle]:
        """The first so many bundles with which it works; after each failure the next trial has a quarter more."""
        free, chosen, bundles = self._free(), list[Bundle](), self._bundles()
        next_trial = 0
        for bundle in bundles:
            chosen.append(bundle)
            free += bundle.amounts(len(free))
            last = len(chosen) == len(bundles)
            if (free >= self.need).all() and (len(chosen) >= next_trial or last):
                mark = self.cycle.transaction.checkpoint()
                works = self._try(chosen)
                self.evictions.rollback(mark)
                if works:
                    return chosen
                next_trial = len(chosen) + max(len(chosen) // 4, 1)
        return []

    @property
    def _columns(self) -> Index:
        """Nodes of the domain, of the kinds on which the gang's pods are tried now where they choose among some."""
        columns, choices = search_of(self.cycle).tree.columns[self.domain], self.session.shared.find(Choices)
        parts = [choices.part(self.job, each) if choices is not None else None for each in self._classes]
        if choices is None or None in parts:
            return columns
        masks = [choices.nodes(part.kind) for part in parts if part is not None]
        allowed: Index = columns[np.logical_or.reduce(masks)[columns]]
        return allowed

    def _free(self) -> Vector:
        """What is idle in the domain, or will be."""
        nodes, columns = self.session.nodes, self._columns
        later = nodes.allocatable[:, columns] - nodes.used[:, columns]
        later = later + nodes.releasing[:, columns] - nodes.pipelined[:, columns]
        return np.asarray(later.clip(min=0).sum(axis=1), dtype=np.int64)

    def _bundles(self) -> list[Bundle]:
        """What may go, first to go first: what gangs can spare, and gangs as a whole, wherever their pods are."""
        rank = cache(self._rank())
        here = list(self._candidates())
        bundles = [
            bundle
            for bundle in bundles_of(self.session, here)
            if (bundle.safe and not bundle.job.broken) or ((bundle.safe or self.rule.whole) and self._complete(bundle))
        ]
        bundles = in_order(bundles, rank, self.need)
        flat = [task for bundle in bundles for task, _ in bundle.every]
        if not flat:
            return []
        answers = self.cycle.hooks.victims(self.job, None, flat, self.rule.purpose).tolist()
        allowed = {task.key for task, yes in zip(flat, answers, strict=True) if yes}
        stay = {bundle.job.key for bundle in bundles if any(task.key not in allowed for task, _ in bundle.every)}
        kept = [bundle for bundle in bundles if self._goes(bundle, allowed, stay)]
        if self.rule.purpose is Purpose.GANG_RECLAIM:
            shares = KeptShares(self.session, np.flatnonzero(self.need > self._free()).tolist())
            kept = [bundle for bundle in kept if shares.lets_go([task for task, _ in bundle.every], bundle.job)]
        return in_order(kept, rank, self.need)

    @staticmethod
    def _goes(bundle: Bundle, allowed: Set[str], stay: Set[str]) -> bool:
        """All that must go together may; ``stay``: jobs of which some task may not."""
        return bundle.job.key not in stay if not bundle.safe else all(task.key in allowed for task, _ in bundle.every)

    def _complete(self, bundle: Bundle) -> bool:
        """Add to a gang's bundle its tasks outside of the domain; False where any of its tasks has to stay."""
        job, there = bundle.job, self._columns
        index = self.evictions.index
        members = index.of_job(index.jobs.number[job.key])
        members = members[index.alive[members]]
        if len(members) < count(job.counts, ALLOCATED_STATES):
            return False
        away = members[~np.isin(index.column[members], there)]
        bundle.elsewhere = [(index.tasks[at], int(index.column[at])) for at in away.tolist()]
        open_to_all = self.evictions.pool.unprotected(self.rule.purpose)
        return bool(open_to_all[members].all()) and all(self._concerned(index.tasks[at], job) for at in members)

    def _candidates(self) -> Iterator[tuple[Task, int, JobState]]:
        index = self.evictions.index
        states = index.jobs.states
        open_to_all = index.alive & self.evictions.pool.unprotected(self.rule.purpose)
        for column in self._columns.tolist():
            for at in index.on(column):
                job = states[index.job[at]]
                if open_to_all[at] and job is not self.job and self._concerned(index.tasks[at], job):
                    yield index.tasks[at], column, job

    def _concerned(self, task: Task, job: JobState) -> bool:
        if not self.evictions.may_lose(job, None):
            return False
        wish = job.record.annotations.get(PREEMPTABLE, job.record.labels.get(PREEMPTABLE))
        if wish is not None and wish not in _TRUE:
            return False
        if self.rule.purpose is Purpose.GANG_PREEMPT:
            return job.queue is self.job.queue and job.priority < self.job.priority
        return job.queue is not self.job.queue and job.queue.record.reclaimable and task.status is TaskStatus.RUNNING

    def _rank(self) -> Any:
        """Key of a victim's job: the last in job order loses first, or the queue that is to lose first."""
        orders, hooks = self.cycle.orders, self.cycle.hooks
        weighed = hooks.has("lost_work")

        def loss(job: JobState) -> tuple[float, ...]:
            lost = hooks.lost_work(self.evictions.tasks_of(job)) if weighed else None
            return () if lost is None else (job.priority, lost)

        if self.rule.purpose is Purpose.GANG_PREEMPT:
            return lambda job: (loss(job), _Reversed(orders.plugins_keys(job)))
        asked = hooks.has("victim_queue_key")
        return lambda job: (
            hooks.keys("victim_queue_key", job.queue, self.job.queue) if asked else (),
            _Reversed(orders.queue_key(job.queue)),
            loss(job),
        )

    # ---- trials

    def _try(self, bundles: Sequence[Bundle]) -> bool:
        """Evict and place; undone by the caller."""
        victims = [(task, column, bundle.job) for bundle in bundles for task, column in bundle.every]
        for task, column, _ in victims:
            if not self.evictions.allowed(task):
                return False
            self.evictions.evict(task, column, self.rule.purpose.value)
        remaining = RemainingByGroup.of(self.cycle, self.job, self.tasks)
        solver = Solver(self.cycle, self.job, remaining, promise=True)
        places = solver.mark()
        worked = solver.solve_in(self.domain) and all(self._for_good(task, job) for task, _, job in victims)
        for group, place in places[1]:
            group.restore(place)
        return worked

    def _for_good(self, victim: Task, job: JobState) -> bool:
        """The victim's job cannot take the place back in the next cycle."""
        if self.rule.purpose is Purpose.GANG_PREEMPT:
            return self.rank.served_before(self.cycle, job)
        return self.rank.holds_against(self.cycle, self.tasks[0], victim, job)

    def _spare(self, chosen: list[Bundle]) -> list[Bundle]:
        """Without bundles that turn out not to be needed, those that go last first."""
        kept = list(chosen)
        for bundle in list(reversed(chosen))[:_SPARED]:
            rest = [other for other in kept if other is not bundle]
            if bundle.safe and any(other.job is bundle.job and not other.safe for other in rest):
                continue  # a gang that goes goes whole
            free = self._free()
            for other in rest:
                free += other.amounts(len(free))
            if not rest or not (free >= self.need).all():
                continue
            mark = self.cycle.transaction.checkpoint()
            if self._try(rest):
                kept = rest
            self.evictions.rollback(mark)
        return kept
