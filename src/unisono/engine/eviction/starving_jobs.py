"""Jobs that may take resources from others, and how one of them is served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from unisono.cluster.job_licenses import holds_licenses
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.strict_order import is_behind
from unisono.engine.cycle.transaction import Placement
from unisono.engine.eviction.evictable_amounts import ActorRank, Among, EvictableAmounts, Rule
from unisono.engine.eviction.search import Evictions
from unisono.engine.placement.first_gangs import serve_promised
from unisono.engine.placement.remaining_tasks import RemainingByGroup
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.placement.waiting_line import place, remaining_of
from unisono.engine.session import queue_limits
from unisono.engine.session.budgets import BudgetLimit
from unisono.engine.session.choices import open_choice
from unisono.engine.session.floating import GangLicenses, held_as_whole
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import aligned, listed
from unisono.engine.session.queue_limits import closed
from unisono.engine.session.sub_groups import is_bounded

# Room below the capability of a queue, or of one above it, made by evictions on any node.
#
# The search of nodes evicts on the node where it places. Where the capability of a queue is what a task lacks, one node
# may not hold enough of that queue's pods, though the queue does as a whole.

_NODES = 8
"""Nodes that are tried at most for one task; each costs a search of victims in all queues that share the limit."""

_MOST = 256
"""Victims that are tried at most for one task."""


def relieve(evictions: Evictions, rank: ActorRank, task: Task, rule: Rule) -> bool:
    """Evict pods of the queues that share the limit until it lets the task in, and promise the task a place.

    Returns:
        False, and nothing changed, where the limit cannot be relieved or the task has no place even then.
    """
    if queue_limits.room(rank.job, task.pod_class) > 0 or any(isinstance(one, BudgetLimit) for one in rank.job.limits):
        return False  # what was used of a budget comes back by nobody's leaving
    evictable = evictions.pool.of(rank.job, task, rule)
    mark = evictions.cycle.transaction.checkpoint()
    relieved = _relieve_limit(evictions, rank, task, rule, evictable)
    evictions.rollback(mark)
    if not relieved:
        return False
    for column in evictions.nodes_for(task, rule, evictable)[:_NODES]:
        room = evictions.make_node_fit(rank, task, column, rule, evictable)
        if room and _relieve_limit(evictions, rank, task, rule, evictable):
            gone = [placement.tasks[0] for placement in evictions.cycle.transaction.log[mark:]]
            evictions.rollback(mark)
            if evictions.place_after(rank, task, column, rule, gone):
                return True
        evictions.rollback(mark)
    return False


def _relieve_limit(evictions: Evictions, rank: ActorRank, task: Task, rule: Rule, evictable: EvictableAmounts) -> bool:
    """Evict, wherever they are, as many as the limit needs; they stay evicted."""
    for victim in _victims(evictions, rank, task, rule, evictable)[:_MOST]:
        if not evictions.is_limited(rank.job, task.pod_class):
            return True
        evictions.evict_for_good(rank, victim, rule)
    return not evictions.is_limited(rank.job, task.pod_class)


def _victims(
    evictions: Evictions, rank: ActorRank, task: Task, rule: Rule, evictable: EvictableAmounts
) -> Sequence[Task]:
    """Those whose queues share the binding limit and that hold what the task asks for, first to go first."""
    index, actor = evictions.index, rank.job
    states, rows = index.jobs.states, {row for row in task.pod_class.rows.tolist() if row != PODS}
    binding = [limit for limit in actor.queue.limits if limit.room(task.pod_class, now=False) < 1]
    as_whole = [one for one in actor.account_limits if isinstance(one, GangLicenses)]
    for licenses in as_whole:
        binding += licenses.lacking(task.pod_class, now=False)
        rows |= {row for limit in binding for row in limit.most if licenses.vector[row]}
    concerned = np.array([set(binding) <= set(queue.limits) for queue in index.jobs.queues], dtype=np.bool_)
    if not concerned.any():
        return []
    positions = np.flatnonzero(evictable.mask & index.alive & concerned[index.jobs.queue][index.job])
    pairs = [(index.tasks[int(at)], states[int(index.job[at])]) for at in positions]
    own = rule.among is Among.JOB
    pairs = [
        pair
        for pair in pairs
        if (pair[1] is actor) is own
        and (not own or pair[0].priority < task.priority)
        and evictions.may_lose(pair[1], actor)
        and not rows.isdisjoint((*pair[0].pod_class.rows.tolist(), *held_as_whole(pair[1])))
    ]
    candidates = evictions.cycle.orders.victims(actor, pairs)
    if not candidates:
        return []
    chosen = evictions.cycle.hooks.victims(actor, task, candidates, rule.purpose)
    victims = [other for other, yes in zip(candidates, chosen.tolist(), strict=True) if yes]
    jobs = {other.key: job for other, job in pairs}
    units = evictions.units(actor, task, rule, evictable, [(other, jobs[other.key]) for other in victims])
    return [unit[0] for unit in units]


def starving_jobs(cycle: Cycle) -> dict[str, list[JobState]]:
    """Admitted, valid jobs with waiting tasks that are short of what they need, by queue.

    Jobs for which others were evicted earlier are served first: they need no more victims, and keep their room.
    A job whose binds failed lately is left out: others would be evicted for it again and again, and for nothing.
    """
    serve_promised(cycle)
    setbacks = cycle.session.snapshot.setbacks
    by_queue: dict[str, list[JobState]] = {}
    for job in cycle.eligible:
        if (
            job.key in setbacks
            or job.phase == "Pending"
            or not job.counts[TaskStatus.PENDING]
            or closed(job.queue) is not None
        ):
            continue
        if cycle.valid(job) and cycle.hooks.starving(job) and not is_behind(cycle, job):
            by_queue.setdefault(job.queue.name, []).append(job)
    return by_queue


def place_starving(cycle: Cycle, evictions: Evictions, job: JobState, tasks: list[Task], rule: Rule) -> bool:
    """Give the job's tasks free places first, then make room for the others until it starves no more: all, or nothing.

    Tasks that request nothing have their turn among the others: for each that counts in a gang one pod less has to go.
    Once a task has found no room, those like it are passed over: later ones would find even less.

    A gang that may take nodes of several kinds is tried on each of them without evictions, and then with them.

    Returns:
        whether the job has got what it needs.
    """
    if _is_kept_in_domain(cycle, job):
        return False  # room for one task after the other need not be in one domain: gangpreempt and gangreclaim do that
    choice = open_choice(cycle.session, job)
    if choice is None:
        return _place_starving(cycle, evictions, job, tasks, rule)
    for evict in (False, True):
        if any(_place_starving(cycle, evictions, job, tasks, rule, evict=evict) for _ in choice.each(alike=True)):
            return True
    choice.rest()
    return False


def _place_starving(
    cycle: Cycle, evictions: Evictions, job: JobState, tasks: list[Task], rule: Rule, *, evict: bool = True
) -> bool:
    """The same on nodes of the kind that is tried now, if there are several."""
    hooks, mark = cycle.hooks, cycle.transaction.checkpoint()
    if evict and evictions.known_to_fail(job, tasks, rule):
        return False
    rank, within_share = ActorRank.of(cycle, job), hooks.overused(job.queue) is None
    left = _place_each(cycle, evictions, rank, tasks, rule, evict=False)
    free = cycle.transaction.checkpoint() > mark
    if evict:
        _place_each(cycle, evictions, rank, left, rule, evict=True)
    if evict and free and hooks.starving(job):  # a small task may stand where alone evictions make room for a large one
        evictions.rollback(mark)
        _place_each(cycle, evictions, rank, tasks, rule, evict=True)
    if settle(cycle, evictions, job, mark, rule.purpose, within_share=within_share):
        return True
    if evict:
        evictions.note_failure(job, tasks, rule)
    return False


def _is_kept_in_domain(cycle: Cycle, job: JobState) -> bool:
    return cycle.hooks.has("domain_gradients") and is_bounded(cycle.session, job)


def settle(
    cycle: Cycle, evictions: Evictions, job: JobState, mark: int, purpose: Purpose, *, within_share: bool
) -> bool:
    """Let what was evicted and promised since ``mark`` stand, where it is enough for the job, or take it back.

    A job that needs no eviction is placed at once where allocate comes later: till then the next job could take its
    free places. Else it is promised what others who have to leave hold, and their beneficiaries do not need.
    """
    taken = cycle.transaction.log[mark:]
    needed = any(placement.status is TaskStatus.RELEASING for placement in taken)
    enough = cycle.hooks.vote("pipelined", job) is None
    if enough and needed:
        enough = not is_for_others(cycle, evictions, job, mark, purpose) and promises_hold(cycle, job, purpose)
    later = _allocates_later(cycle, purpose)
    spare = not (needed or later) and within_share and any(_waits(cycle, placement) for placement in taken)
    if enough and (needed or spare):
        cycle.commit(mark, job)
        return True
    evictions.rollback(mark)
    return bool(enough and later and place(cycle, job, remaining_of(cycle, job)))


def promises_hold(cycle: Cycle, job: JobState, purpose: Purpose) -> bool:
    """Whether pods that were promised places may still have them, now that others are to go for ``job``.

    The company that a pod requires may have been evicted after it got its place, or what keeps a spread even; or the
    share of its queue rests on what the others hold of nodes that nobody gets after them.
    """
    transaction = cycle.transaction
    if not _shares_hold(cycle, job) or not _takes_its_share(cycle, job, purpose):
        return False
    as_it_was = transaction.log
    counting = {one for one in {each.pod_class for each in as_it_was} if _counts_others(one)}
    beside = [
        each
        for each in (as_it_was if counting else ())
        if each.status is TaskStatus.PIPELINED and each.pod_class in counting
    ]
    hold = True
    for each in beside:
        if hold:
            cycle.session.subject = each.job
            transaction.withdraw(each)
            table = cycle.tables.of(each.pod_class, future=True)
            hold = all(table.admits(column) for column in each.columns)
            transaction.renew(each)
    transaction.log = as_it_was
    return hold


def _shares_hold(cycle: Cycle, job: JobState) -> bool:
    """Whether what queues may hold is enough for what they are promised, now that others are to go for ``job``.

    What these hold of closed nodes counts as theirs, and is lost with them; and what they hold of a limit was not for
    the beneficiary's queue to claim, whose claim then grows, as those of others do.
    """
    session, log = cycle.session, cycle.transaction.log
    shares, opens = session.book.shares, session.snapshot.nodes.opens()
    if not shares.outgrown:
        return True
    lost = session.registry.zeros()
    if not opens.all():
        for each in log:
            for task, column in zip(each.tasks, each.columns, strict=True):
                if each.status is TaskStatus.RELEASING and not opens[column]:
                    lost += aligned(task.pod_class.vector, session.registry)
    lost[PODS] = 0
    queues = {job.queue.name: job.queue}
    if lost.any():
        queues |= {each.job.queue.name: each.job.queue for each in log if each.status is TaskStatus.PIPELINED}
    gone = listed(lost, session.registry)
    return not any(outgrown(queue, gone) for queue in queues.values() for outgrown in shares.outgrown)


def _takes_its_share(cycle: Cycle, job: JobState, purpose: Purpose) -> bool:
    """Whether the queue stays within its share of what the job takes as a whole, where it reclaims for that.

    Plug-ins are asked about pods, and do not see what comes with the first of them: queues that each deserve half a
    licence would reclaim it from one another for ever.
    """
    rows, told = held_as_whole(job), cycle.session.book.shares.metrics_of
    if purpose not in _RECLAIMING or not rows or told is None or holds_licenses(job.record):
        return True
    shares = told(job.queue)
    return shares is None or all(job.queue.claimed.item(row) <= shares.deserved[row] for row in rows)


def _counts_others(pod_class: PodClass) -> bool:
    return bool(pod_class.terms.near or any(spread.hard for spread in pod_class.terms.spread))


_RECLAIMING = (Purpose.RECLAIM, Purpose.GANG_RECLAIM)
_RIVALS = 16
"""Kinds of jobs that are tried at most to see whether they would take what is freed."""


def is_for_others(cycle: Cycle, evictions: Evictions, job: JobState, mark: int, purpose: Purpose) -> bool:
    """Whether another job of the queue, which is served first, would take the room made since ``mark``.

    Such a job has a higher priority, and never has others evicted, or its queue may not reclaim what it requests
    although it may reclaim for this one. This one would get nothing, and pods would be evicted for it again.
    """
    rivals = list(_rivals(cycle, job)) if purpose in _RECLAIMING else []
    if not rivals:
        return False
    transaction = cycle.transaction
    promises = [each for each in transaction.log[mark:] if each.status is not TaskStatus.RELEASING]
    for each in reversed(promises):
        transaction.withdraw(each)
    after = transaction.checkpoint()
    taken = any(_takes_free(cycle, evictions, rival, after) for rival in rivals)
    for each in promises:
        transaction.renew(each)
    return taken


def _takes_free(cycle: Cycle, evictions: Evictions, job: JobState, mark: int) -> bool:
    """Whether the job gets its minimum, or more of what it wants beyond it, from free room; undone."""
    if _is_kept_in_domain(cycle, job):
        solver = Solver(
            cycle, job, RemainingByGroup.of(cycle, job, cycle.pending(job, best_effort=False)), promise=True
        )
        before = solver.mark()
        starts = solver.solve() is not None
        solver.undo(before)
        return starts
    taken = False
    for task in cycle.pending(job, best_effort=False):
        if not cycle.hooks.starving(job) or not evictions.take_free(job, task):
            break
        taken = True
    starts = taken and cycle.hooks.vote("pipelined", job) is None
    evictions.rollback(mark)
    return starts


def _rivals(cycle: Cycle, job: JobState) -> Iterator[JobState]:
    """One of each shape, a few at most."""
    shapes: set[object] = set()
    for other in cycle.eligible:
        if other.queue is not job.queue or other.priority <= job.priority or not other.counts[TaskStatus.PENDING]:
            continue
        shape, waiting = other.shape or other.key, other.record.pending.values()
        if shape in shapes or other.phase == "Pending":
            continue
        shapes.add(shape)
        classes = list({task.pod_class.id: task.pod_class for task in waiting}.values())
        never = all(task.never_preempts for task in waiting)
        if not never and cycle.hooks.first("preemptive", other.queue, classes) is None:
            continue
        if cycle.valid(other) and cycle.hooks.starving(other):
            yield other
            if len(shapes) >= _RIVALS:
                return


def _place_each(
    cycle: Cycle, evictions: Evictions, rank: ActorRank, tasks: list[Task], rule: Rule, *, evict: bool
) -> list[Task]:
    """Promise places to one task after the other until the job starves no more; returns those without one.

    A free place comes first: what a victim held may be enough for two.
    """
    job = rank.job
    hopeless: set[tuple[int, str, bool]] = set()
    left: list[Task] = []
    for at, task in enumerate(tasks):
        if not cycle.hooks.starving(job):
            return left + tasks[at:]
        alike = (task.pod_class.id, task.role, task.never_preempts)
        if alike not in hopeless and _may_take(cycle, job, task, rule) and _prefilter(cycle, task):
            if evictions.take_free(job, task):
                continue
            may = evict and not task.never_preempts
            if may and (evictions.make_room(rank, task, rule) or relieve(evictions, rank, task, rule)):
                continue
        hopeless.add(alike)
        left.append(task)
    return left


def _allocates_later(cycle: Cycle, purpose: Purpose) -> bool:
    actions = list(cycle.config.actions)
    return purpose.value in actions and "allocate" in actions[actions.index(purpose.value) :]


def _waits(cycle: Cycle, placement: Placement) -> bool:
    """A promised place is free only once others are gone."""
    nodes = cycle.session.nodes
    for task, column in zip(placement.tasks, placement.columns, strict=True):
        rows = task.pod_class.rows
        idle = nodes.allocatable[rows, column] - nodes.used[rows, column] - nodes.pipelined[rows, column]
        if (idle < 0).any():
            return True
    return False


def _may_take(cycle: Cycle, job: JobState, task: Task, rule: Rule) -> bool:
    return rule.purpose is not Purpose.RECLAIM or cycle.hooks.first("preemptive", job.queue, [task.pod_class]) is None


def _prefilter(cycle: Cycle, task: Task) -> bool:
    return not cycle.hooks.has("prefilter") or cycle.hooks.prefilter(task) is None
