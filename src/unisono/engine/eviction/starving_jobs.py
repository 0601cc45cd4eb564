"""Jobs that may take resources from others, and how one of them is served."""

from __future__ import annotations

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.strict_order import is_behind
from unisono.engine.cycle.transaction import Placement
from unisono.engine.eviction.evictable_amounts import Rule
from unisono.engine.eviction.limit_relief import relieve
from unisono.engine.eviction.search import Evictions
from unisono.engine.eviction.victim_rank import ActorRank
from unisono.engine.placement.waiting_tasks import place, remaining_of
from unisono.engine.session.job_state import JobState
from unisono.engine.session.queue_limits import closed
from unisono.engine.session.sub_groups import is_bounded


def starving_jobs(cycle: Cycle) -> dict[str, list[JobState]]:
    """Admitted, valid jobs with waiting tasks that are short of what they need, by queue.

    A job whose binds failed lately is left out: others would be evicted for it again and again, and for nothing.
    """
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
    """Make room for one task after the other until the job starves no more; all stands, or nothing.

    Tasks that request nothing have their turn among the others: for each that counts in a gang one pod less has to go.
    Once a task has found no room, those like it are passed over: later ones would find even less. A job that needs
    no eviction is placed at once where allocate comes later: till then the next job could take its free places.
    Else it is promised what others who have to leave hold, and their beneficiaries do not need.

    Returns:
        whether the job has got what it needs.

    """
    hooks, mark = cycle.hooks, cycle.transaction.checkpoint()
    if hooks.has("domain_gradients") and is_bounded(cycle.session, job):
        return False  # room for one task after the other need not be in one domain: gangpreempt and gangreclaim do that
    if evictions.known_to_fail(job, tasks, rule):
        return False
    rank, within_share = ActorRank.of(cycle, job), hooks.overused(job.queue) is None
    hopeless: set[tuple[int, str]] = set()
    for task in tasks:
        if not hooks.starving(job):
            break
        alike = (task.pod_class.id, task.role)
        if alike in hopeless or not _may_take(cycle, job, task, rule) or not _prefilter(cycle, task):
            continue
        if not (evictions.make_room(rank, task, rule) or relieve(evictions, rank, task, rule)):
            hopeless.add(alike)
    taken = cycle.transaction.log[mark:]
    needed = any(placement.status is TaskStatus.RELEASING for placement in taken)
    enough = hooks.vote("pipelined", job) is None
    later = _allocates_later(cycle, rule)
    spare = not (needed or later) and within_share and any(_waits(cycle, placement) for placement in taken)
    if enough and (needed or spare):
        cycle.commit(mark, job)
        return True
    evictions.rollback(mark)
    if enough and later and place(cycle, job, remaining_of(cycle, job)):
        return True
    evictions.note_failure(job, tasks, rule)
    return False


def _allocates_later(cycle: Cycle, rule: Rule) -> bool:
    actions = list(cycle.config.actions)
    return rule.purpose.value in actions and "allocate" in actions[actions.index(rule.purpose.value) :]


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
    if task.never_preempts:
        return False
    if rule.purpose is not Purpose.RECLAIM:
        return True
    return cycle.hooks.first("preemptive", job.queue, [task.pod_class]) is None


def _prefilter(cycle: Cycle, task: Task) -> bool:
    return not cycle.hooks.has("prefilter") or cycle.hooks.prefilter(task) is None
