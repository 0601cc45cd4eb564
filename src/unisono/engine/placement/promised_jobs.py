"""Jobs for which others were evicted: they get those places before any action gives room to other jobs."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.cluster.records import Task
from unisono.engine.cycle import strict_order
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.waiting_tasks import Remaining, place, remaining_of
from unisono.engine.session.job_state import JobState
from unisono.engine.session.queue_limits import closed


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

    Without this, the job that comes first in the orders, such as a victim's new pod, takes the place, and the eviction
    has been for nothing. Jobs of the same queue with a higher priority come along, so that they are not passed over;
    queues with any come last, so that these take no room that was made for another queue.
    """
    if not len(cycle.session.snapshot.nodes) or not any(_has_place(cycle, job) for job in cycle.eligible):
        return []
    waiting, stops = waiting_jobs(cycle, best_effort=None)
    found: list[JobState] = []
    outranked: set[str] = set()
    for jobs in waiting.values():
        ready = [job for job in jobs if job.key not in stops]
        chosen = [job for job in ready if _has_place(cycle, job) and cycle.hooks.starving(job)]
        if chosen:
            highest = max(job.priority for job in chosen)
            higher = [job for job in ready if job.priority > highest]
            outranked |= {job.queue.name for job in higher}
            found += chosen + higher
    orders = cycle.orders
    return sorted(
        found, key=lambda job: (job.queue.name in outranked, orders.queue_key(job.queue), orders.job_key(job))
    )


def _has_place(cycle: Cycle, job: JobState) -> bool:
    if job.shape:  # whose tasks are all alike, and none nominated
        return False
    return any(task.nominated_node and _room(cycle, task) for task in job.record.pending.values())


def _room(cycle: Cycle, task: Task) -> bool:
    nodes, rows = cycle.session.nodes, task.pod_class.rows
    column = nodes.table.index.get(task.nominated_node)
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
