"""Jobs that are served out of turn: gangs larger than the rest of a share, and jobs for which others were evicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.cycle import strict_order
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.equivalence_batches import EquivalenceBatches
from unisono.engine.placement.waiting_line import Remaining, place, remaining_of
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.queue_limits import closed
from unisono.engine.verdict import Cause

# Gangs that are larger than what is left of their queue's share: they start where a plug-in of shares lets them.
#
# Without it a cluster can stay idle for ever: of three queues of equal weight each deserves a third, and where each has
# a gang that needs half, none ever starts.

Waiting = tuple[QueueState, list[JobState]]


def place_first_gangs(cycle: Cycle) -> None:
    """Serve, one after the other, queues whose gangs nothing but their share keeps from starting.

    It comes after all actions: whatever is idle by then, no work within its share can use in this cycle, also not
    with evictions. Of queues of equal priority that one is first whose gang has waited longest, so that each has its
    turn. Of the gangs of a queue the first one that finds room starts, with its minimum. Where the share is only the
    queue's part of a parent's capability, a gang that has started gets its other pods as well.
    """
    shares = cycle.session.book.shares
    if shares.may_exceed is None:
        return
    alike = EquivalenceBatches(cycle)
    for _, jobs in _beyond_share(cycle):
        for job in jobs:
            if shares.may_exceed(job):
                shares.exceeding = job
                try:
                    if _starts(cycle, alike, job):
                        break
                finally:
                    shares.exceeding = None


def _beyond_share(cycle: Cycle) -> list[Waiting]:
    """Queues and those of their gangs that a share has refused, each in order."""
    by_queue: dict[str, list[JobState]] = {}
    for key, report in cycle.reports.items():
        if report.quota is None or report.quota.cause is not Cause.OVER_SHARE:
            continue
        job = cycle.session.job(key)
        if job is not None and not job.counts[TaskStatus.PIPELINED] and cycle.valid(job):
            by_queue.setdefault(job.queue.name, []).append(job)
    refused = [
        (jobs[0].queue, sorted(jobs, key=cycle.orders.job_key))
        for jobs in by_queue.values()
        if any(map(cycle.session.book.shares.may_exceed or bool, jobs))
    ]
    return sorted(refused, key=lambda waiting: _turn(*waiting))


def _turn(queue: QueueState, jobs: list[JobState]) -> tuple[int, float, float, str]:
    return -queue.record.priority, jobs[0].created, queue.created, queue.name


def _starts(cycle: Cycle, alike: EquivalenceBatches, job: JobState) -> bool:
    """Place the gang, or what it wants beyond its minimum; where that fails, the report says why, and not the share."""
    del cycle.reports[job.key]
    if alike.fail(job):
        return False
    before, started, left = alike.state(), job.has_started and cycle.hooks.ready(job), remaining_of(cycle, job)
    placed = place(cycle, job, left)
    if not placed:
        alike.note_failure(job, before)
    more = placed and started
    while more and left:
        more = place(cycle, job, left)
    return placed


# Jobs for which others were evicted: they get those places before any action gives room to other jobs.


class PromisedJobs:
    """The promised jobs of a cycle, which are served once.

    Attributes:
        remaining: what is left of each that was served, by job key; None where it is not to be served again.
    """

    def __init__(self, cycle: Cycle) -> None:
        self.remaining: dict[str, Remaining | None] = {}
        if "allocate" not in cycle.config.actions:
            return
        for job in promised(cycle):
            if cycle.hooks.overused(job.queue) is None:
                left = remaining_of(cycle, job)
                self.remaining[job.key] = left if place(cycle, job, left) and left else None


def serve_promised(cycle: Cycle) -> Mapping[str, Remaining | None]:
    """Serve the promised jobs, if no action has done so; see `PromisedJobs.remaining`."""
    return cycle.session.shared.of(PromisedJobs, lambda: PromisedJobs(cycle)).remaining


def promised(cycle: Cycle) -> list[JobState]:
    """Waiting jobs that starve and have a nominated task whose node has room, in queue and job order.

    Those that start with their nominated tasks alone come first, as pods of others would choose among their places.
    Without this, the job that comes first in the orders, such as a victim's new pod, takes the place, and the eviction
    has been for nothing. Jobs of the same queue with a higher priority come along, so that they are not passed over,
    unless they have their minimum: preemption makes no room for pods beyond it.
    Queues with any come last, so that these take no room that was made for another queue. Jobs that request nothing
    don't: they are placed by backfill, after everybody else.
    """
    if not len(cycle.session.snapshot.nodes) or not any(_has_place(cycle, job) for job in cycle.eligible):
        return []
    waiting, stops = waiting_jobs(cycle, best_effort=None)
    first_jobs: list[JobState] = []
    outranked: set[str] = set()
    for jobs in waiting.values():
        ready = [job for job in jobs if job.key not in stops]
        chosen = [job for job in ready if _has_place(cycle, job) and cycle.hooks.starving(job)]
        if chosen:
            highest = max(job.priority for job in chosen)
            higher = [
                job
                for job in ready
                if job.priority > highest
                and (job.shape or cycle.has_pending(job, best_effort=False))
                and cycle.hooks.starving(job)
            ]
            outranked |= {job.queue.name for job in higher}
            first_jobs += chosen + higher
    orders = cycle.orders

    def turn(job: JobState) -> tuple[bool, bool, Any, Any]:
        chooses = sum(_places(cycle, job)) < cycle.hooks.missing(job)
        return job.queue.name in outranked, chooses, orders.queue_key(job.queue), orders.job_key(job)

    return sorted(first_jobs, key=turn)


def _has_place(cycle: Cycle, job: JobState) -> bool:
    return not job.shape and any(_places(cycle, job))  # else its tasks are all alike, and none nominated


def _places(cycle: Cycle, job: JobState) -> Iterator[bool]:
    """Of each waiting task whether it is nominated for a node that has room for it."""
    waiting = job.record.pending.values()
    return (bool(task.nominated_node) and has_room(cycle, task, task.nominated_node) for task in waiting)


def has_room(cycle: Cycle, task: Task, node: str) -> bool:
    """Whether a node that a task was told of has room for it, once what terminates there has gone."""
    nodes, rows = cycle.session.nodes, task.pod_class.rows
    column = nodes.table.index.get(node)
    if column is None:
        return False
    free = nodes.allocatable[rows, column] - nodes.used[rows, column]
    return bool((free + nodes.releasing[rows, column] - nodes.pipelined[rows, column] >= task.pod_class.amounts).all())


def waiting_jobs(cycle: Cycle, *, best_effort: bool | None = False) -> tuple[dict[str, list[JobState]], set[str]]:
    """Jobs to serve, by queue, and the keys of those among them at whose turn a queue with strict order stops.

    Args:
        cycle: of which the eligible jobs are looked at.
        best_effort: only those with waiting tasks that request something; None: with any.
    """
    admits_all = "enqueue" not in cycle.config.actions
    refusals = {queue.name: closed(queue) for queue in cycle.session.queues.values() if queue.closed}
    by_queue: dict[str, list[JobState]] = {}
    stops: set[str] = set()
    for job in cycle.eligible:
        if not _may_run(cycle, job, admits_all=admits_all):
            if strict_order.stops_others(cycle, job):
                stops.add(job.key)
                by_queue.setdefault(job.queue.name, []).append(job)
            continue
        refusal = refusals.get(job.queue.name)
        if refusal is not None:
            cycle.report(job).gate = refusal
            continue
        if job.record.pending and (job.shape or cycle.has_pending(job, best_effort=best_effort)):
            by_queue.setdefault(job.queue.name, []).append(job)
    return by_queue, stops


def _may_run(cycle: Cycle, job: JobState, *, admits_all: bool) -> bool:
    """Admitted and valid; without the action enqueue every pending job counts as admitted."""
    if job.phase == "Pending":
        if not admits_all:
            return False
        job.phase = "Inqueue"
    return cycle.valid(job)
