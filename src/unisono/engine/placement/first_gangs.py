"""Gangs that are larger than what is left of their queue's share: they start where a plug-in of shares lets them.

Without it a cluster can stay idle for ever: of three queues of equal weight each deserves a third, and where each has a
gang that needs half, none ever starts.
"""

from __future__ import annotations

from unisono.cluster.status import TaskStatus
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.equivalence_batches import EquivalenceBatches
from unisono.engine.placement.waiting_tasks import place, remaining_of
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.verdict import Cause

Waiting = tuple[QueueState, list[JobState]]


def place_first_gangs(cycle: Cycle) -> None:
    """Serve, one after the other, queues whose gangs nothing but their share keeps from starting.

    It comes after all actions: whatever is idle by then, no work within its share can use in this cycle, also not
    with evictions. Of queues of equal priority that one is first whose gang has waited longest, so that each has its
    turn. Of the gangs of a queue the first one that finds room starts, with its minimum.
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
        if job is not None and not job.counts[TaskStatus.PIPELINED] and _waits_to_start(cycle, job):
            by_queue.setdefault(job.queue.name, []).append(job)
    found = [
        (jobs[0].queue, sorted(jobs, key=cycle.orders.job_key))
        for jobs in by_queue.values()
        if any(map(cycle.session.book.shares.may_exceed or bool, jobs))
    ]
    return sorted(found, key=lambda waiting: _turn(*waiting))


def _waits_to_start(cycle: Cycle, job: JobState) -> bool:
    return job.holds_nothing or not cycle.hooks.ready(job)


def _turn(queue: QueueState, jobs: list[JobState]) -> tuple[int, float, float, str]:
    return -queue.record.priority, jobs[0].created, queue.created, queue.name


def _starts(cycle: Cycle, alike: EquivalenceBatches, job: JobState) -> bool:
    """Place the gang; where that fails, the job's report says why, and no longer that its share is too small."""
    del cycle.reports[job.key]
    if alike.fail(job):
        return False
    before = alike.state()
    if place(cycle, job, remaining_of(cycle, job)):
        return True
    alike.note_failure(job, before)
    return False
