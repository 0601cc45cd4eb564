"""backfill: places pods that request nothing wherever the filters let them."""

from __future__ import annotations

from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.strict_order import is_behind
from unisono.engine.placement.remaining_tasks import RemainingByGroup
from unisono.engine.placement.task_loop import note_failure
from unisono.engine.placement.waiting_line import place_grouped
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import is_grouped


def run(cycle: Cycle) -> None:
    """Serve the queues one after the other, each to its end, in queue, job and task order.

    Nothing is requested but to be one pod more: limits on pods and closed queues are respected.
    """
    by_queue: dict[str, list[JobState]] = {}
    for job in cycle.eligible:
        if job.pending_best_effort and job.phase != "Pending" and cycle.valid(job) and not is_behind(cycle, job):
            by_queue.setdefault(job.queue.name, []).append(job)
    queues = cycle.orders.queues(cycle.session.queues[name] for name in by_queue)
    while len(queues):
        queue = queues.pop()
        refusal = queue_limits.closed(queue)
        jobs = cycle.orders.jobs(by_queue[queue.name])
        while len(jobs):
            job = jobs.pop()
            if refusal is not None:
                cycle.report(job).gate = refusal
            elif is_grouped(job, cycle.session.snapshot.hyper_nodes):
                _place_in_domain(cycle, job)
            else:
                _place(cycle, job)


def _place(cycle: Cycle, job: JobState) -> None:
    cycle.session.subject = job
    mark = cycle.transaction.checkpoint()
    for task in cycle.pending(job, best_effort=True):
        reason = cycle.hooks.prefilter(task) if cycle.hooks.has("prefilter") else None
        if reason is not None:
            note_failure(cycle, job, task, cycle.fits.refused(reason))
            continue
        refusal = queue_limits.refusal(job, task.pod_class, now=True)
        refusal = refusal or cycle.hooks.allocatable(job, task.pod_class)
        if refusal is not None:
            cycle.report(job).quota = cycle.report(job).quota or refusal
            break
        table = cycle.tables.of(task.pod_class)
        if not cycle.transaction.place(job, [task], table):
            note_failure(cycle, job, task, cycle.fits.errors(task.pod_class))
    if cycle.hooks.ready(job):
        cycle.commit(mark, job)
    else:
        cycle.report(job).discarded += cycle.transaction.rollback(mark)


def _place_in_domain(cycle: Cycle, job: JobState) -> None:
    """Pods that request nothing stay in the domain of their job as all others do."""
    left = RemainingByGroup.of(cycle, job, cycle.pending(job, best_effort=True))
    while left and place_grouped(cycle, job, left):
        pass
