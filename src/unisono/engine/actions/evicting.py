"""preempt, reclaim, gangpreempt and gangreclaim: starving jobs take the places of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.status import READY_STATES, TaskStatus, count
from unisono.engine.answers import Purpose
from unisono.engine.config.arguments import argument_value
from unisono.engine.config.model import ACTION_ARGUMENTS
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.transaction import Placement
from unisono.engine.eviction.evictable_amounts import Among, Rule
from unisono.engine.eviction.search import evictions_of
from unisono.engine.eviction.starving_jobs import place_starving, starving_jobs
from unisono.engine.eviction.whole_gangs import GangRule, serve
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import is_bounded

# Evictions that later ones of the same cycle have made needless are taken back.
#
# A job evicts a small pod here, another one later a large one there, which leaves room for both. Or the pods of one
# gang differ, and what goes for the last of them is enough for the first as well.

_FOR_ONE = frozenset(each.value for each in (Purpose.PREEMPT, Purpose.RECLAIM))
_WHOLE = frozenset(each.value for each in (Purpose.GANG_PREEMPT, Purpose.GANG_RECLAIM))

_TRIALS = 64
"""Evictions that are tried to be taken back at most, in one action."""


def take_back_needless(cycle: Cycle) -> None:
    """Let victims stay whose beneficiaries find all their places without them; the last one of each stays first.

    A beneficiary keeps its nodes where it can, and else moves to room that is free then, unless it has a domain.
    Victims that go as a whole gang stay as one.
    """
    if len([1 for placement, key in cycle.evicted if key and placement.reason in _FOR_ONE | _WHOLE]) < 2:
        return
    search = _Needless(cycle)
    if not search.has_room_for_any():
        return
    for key in dict.fromkeys(key for _, key in cycle.evicted if key):
        job = cycle.session.job(key)
        for unit in _units(cycle, key) if job is not None else ():
            if job is None or search.trials >= _TRIALS:
                return
            search.spare(job, unit)


def _units(cycle: Cycle, key: str) -> list[list[Placement]]:
    """Victims of one beneficiary that go or stay together, last first."""
    units: dict[str, list[Placement]] = {}
    for number, (placement, taker) in enumerate(cycle.evicted):
        if taker != key or placement.reason not in _FOR_ONE | _WHOLE:
            continue
        together = placement.job.ready_count < placement.job.min_member
        units.setdefault(placement.job.key if together else f"{number}", []).append(placement)
    return list(reversed(units.values()))


def _looks_beyond_its_node(pod_class: PodClass) -> bool:
    """Whether it matters to the pod, or to pods near it, who else is in its domains."""
    terms = pod_class.terms
    return bool(terms.near or terms.away or any(spread.hard for spread in terms.spread))


class _Needless:
    """Trials; each leaves everything as it was, or a unit of victims where they are."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.session = cycle.session
        self.evictions = evictions_of(cycle)
        self.trials = 0
        self._follow()

    def _follow(self) -> None:
        self._promised: dict[int, list[Placement]] = {}
        self._of_job: dict[str, list[Placement]] = {}
        for placement in self.cycle.transaction.log:
            self._of_job.setdefault(placement.job.key, []).append(placement)
            for column in placement.columns:
                self._promised.setdefault(column, []).append(placement)
        self._somewhere: dict[PodClass, bool] = {}

    def spare(self, job: JobState, unit: Sequence[Placement]) -> None:
        """Try whether the job finds all its places although these victims stay."""
        columns = {column for placement in unit for column in placement.columns}
        there = {id(placement): placement for column in columns for placement in self._promised.get(column, ())}
        own = self._of_job.get(job.key, [])
        if any(_looks_beyond_its_node(placement.pod_class) for placement in (*own, *unit)):
            there |= {id(placement): placement for placement in own}
        moved = [placement for placement in there.values() if placement.status is TaskStatus.PIPELINED] or own[:1]
        moved.sort(key=lambda placement: placement.job is job)  # others keep their nodes
        if not moved or not (self._fits(unit) or any(self._has_room(placement.pod_class) for placement in moved)):
            return
        self.trials += 1
        if self._works(job, unit, moved):
            gone = {id(placement) for placement in unit}
            self.cycle.evicted = [pair for pair in self.cycle.evicted if id(pair[0]) not in gone]
            self._follow()

    def _fits(self, unit: Sequence[Placement]) -> bool:
        """Whether their nodes have room for these victims beside all that was promised."""
        size, matrix = self.session.rows, self.session.matrix
        held: dict[int, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {}
        for placement in unit:
            for column in placement.columns:
                held[column] = held.get(column, 0) + placement.pod_class.vector
        for column, more in held.items():
            books = matrix[: 4 * size, column].reshape(4, size)
            if ((books[0] - books[1] + books[2] - books[3])[: len(more)] < more).any():
                return False
        return True

    def has_room_for_any(self) -> bool:
        """Whether a node has room for any victim, or for any pod that was promised a place."""
        placements = [*(placement for placement, _ in self.cycle.evicted), *self.cycle.transaction.log]
        return any(self._has_room(pod_class) for pod_class in {placement.pod_class for placement in placements})

    def _has_room(self, pod_class: PodClass) -> bool:
        """Whether a node has room for a pod of the class."""
        fits = self._somewhere.get(pod_class)
        if fits is None:
            free = self.session.nodes.future_idle[pod_class.rows]
            fits = self._somewhere[pod_class] = bool((free >= pod_class.amounts[:, None]).all(axis=0).any())
        return fits

    def _works(self, job: JobState, unit: Sequence[Placement], moved: Sequence[Placement]) -> bool:
        """Take back evictions and promises, and promise again; all is as before where that fails."""
        transaction, evictions = self.cycle.transaction, self.evictions
        for placement in moved:
            transaction.withdraw(placement)
        for placement in unit:
            transaction.withdraw(placement)
            evictions.note(placement, alive=True)
        mark = transaction.checkpoint()
        if self._is_right(unit) and all(self._place_again(placement, placement.job is job) for placement in moved):
            return True
        evictions.rollback(mark)
        for placement in unit:
            transaction.renew(placement)
            evictions.note(placement, alive=False)
        for placement in moved:
            transaction.renew(placement)
        return False

    def _is_right(self, unit: Sequence[Placement]) -> bool:
        """No victim's queue goes beyond a capability, and no gang goes on that is broken."""
        for placement in unit:
            job = placement.job
            if any(limit.held[row] > most for limit in job.limits for row, most in limit.most.items()):
                return False
            if job.ready_count < job.min_member <= count(job.record.counts, READY_STATES):
                return False
        return True

    def _place_again(self, placement: Placement, free: bool) -> bool:
        """Promise places to the tasks of a run, on the same nodes first; ``free``: else on others."""
        job = self.session.subject = placement.job
        bound = not free or is_bounded(self.session, job)
        for task, column in zip(placement.tasks, placement.columns, strict=True):
            if self.evictions.fits(job, task, column):
                self.cycle.transaction.place_on(job, task, column, pipelined=True)
            elif bound or not self.evictions.take_free(job, task):
                return False
        return True


# preempt, reclaim, gangpreempt and gangreclaim: starving jobs take resources from others.
#
# To preempt is to take from jobs of lower rank in one's own queue, or from lesser tasks of one's own job; to reclaim is
# to take from queues above their share, for one below its own. For a gang, the room must be in one domain.


_RECLAIM = Rule(Purpose.RECLAIM, Among.OTHER_QUEUES, scored=False)
_ARGUMENTS = {argument.key: argument for argument in ACTION_ARGUMENTS["preempt"]}
_CANDIDATES = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute", "maxCandidateNodesAbsolute")


def preempt(cycle: Cycle) -> None:
    """Queue by queue: first starving jobs at the cost of other jobs, then at the cost of their own lesser tasks.

    A job gets all the places that it needs, or takes nothing from others. Within a job each task counts for itself.
    """
    between_jobs, within_job = _preempt_rules(cycle)

    def between(job: JobState) -> None:
        evictions = evictions_of(cycle)
        if not evictions.known_to_fail(job, job.record.pending.values(), between_jobs):
            place_starving(cycle, evictions, job, cycle.pending(job), between_jobs)

    _by_queue(cycle, between, lambda job: _within(cycle, job, within_job))


def gangpreempt(cycle: Cycle) -> None:
    """Queue by queue, the first of the starving jobs first."""
    rule = _gang_rule(cycle, "gangpreempt", Purpose.GANG_PREEMPT)
    _by_queue(cycle, lambda job: serve(cycle, job, rule))


def reclaim(cycle: Cycle) -> None:
    """Queues take turns: a job gets all the places that it needs, or takes nothing.

    A task is passed over when its queue may take nothing for it.
    """
    _by_turns(cycle, lambda job: place_starving(cycle, evictions_of(cycle), job, cycle.pending(job), _RECLAIM))


def gangreclaim(cycle: Cycle) -> None:
    """Queues take turns, the first of the starving jobs first."""
    rule = _gang_rule(cycle, "gangreclaim", Purpose.GANG_RECLAIM)
    _by_turns(cycle, lambda job: serve(cycle, job, rule))


def _by_queue(cycle: Cycle, take: Callable[[JobState], object], then: Callable[[JobState], object] = id) -> None:
    """All starving jobs of the best queue in order, and ``then`` each of them once more, before those of the next."""
    by_queue = starving_jobs(cycle)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues):
        starving = by_queue[queues.pop().name]
        jobs = cycle.orders.jobs(starving)
        while len(jobs):
            take(jobs.pop())
        for job in starving:
            then(job)
    take_back_needless(cycle)


def _by_turns(cycle: Cycle, take: Callable[[JobState], object]) -> None:
    """One job of the best queue after the other; a queue that holds its share is dropped."""
    heaps = {name: cycle.orders.jobs(jobs) for name, jobs in starving_jobs(cycle).items()}
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    while len(queues):
        queue = queues.pop()
        if cycle.hooks.overused(queue) is not None:
            continue
        jobs = heaps[queue.name]
        take(jobs.pop())
        if len(jobs):
            queues.push(queue)
    take_back_needless(cycle)


def _gang_rule(cycle: Cycle, action: str, purpose: Purpose) -> GangRule:
    given = cycle.config.arguments_of(action)
    values = {argument.key: argument_value(argument, given) for argument in ACTION_ARGUMENTS[action]}
    return GangRule(purpose, values["maxDomains"], values["allowWholeBundle"])


def _preempt_rules(cycle: Cycle) -> tuple[Rule, Rule]:
    """Between jobs and within a job; in topology-aware mode several nodes are compared."""
    given = cycle.config.arguments_of("preempt")
    number = cycle.session.nodes.size
    compared = 0
    if argument_value(_ARGUMENTS["enableTopologyAwarePreemption"], given):
        share, least, most = (argument_value(_ARGUMENTS[key], given) for key in _CANDIDATES)
        compared = max(min(max(number * share // 100, least), most, number), 1)
    between, within = (
        Rule(Purpose.PREEMPT, among, scored=True, compared=compared) for among in (Among.QUEUE, Among.JOB)
    )
    return between, within


def _within(cycle: Cycle, job: JobState, rule: Rule) -> None:
    """Better tasks of a job take the places of worse ones until one finds none."""
    if job.shape or len({task.priority for task in job.record.tasks.values()}) < 2:
        return  # the waiting pods of a job with a shape are all it has, and equal
    for task in cycle.pending(job):
        if not cycle.hooks.starving(job):
            return
        if not place_starving(cycle, evictions_of(cycle), job, [task], rule):
            return
