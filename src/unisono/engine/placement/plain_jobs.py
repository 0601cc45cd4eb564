"""Placing the waiting tasks of a job without topology and sub-groups: all of it is one group, on all nodes."""

from __future__ import annotations

from collections.abc import Sequence, Set

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus, count
from unisono.engine.candidates.table import CandidateTable
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.remaining_tasks import RemainingTasks
from unisono.engine.placement.stuck_first import retry
from unisono.engine.placement.task_loop import TaskGroup, note_failure, place_tasks
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState

_NO_ROLES: frozenset[str] = frozenset()


def place_job(cycle: Cycle, job: JobState, remaining: RemainingTasks) -> bool:
    """Place tasks until the job is ready, commit when it is.

    A ready job gets one more task per call, so that surplus tasks of jobs compete through the orders. A job that is
    not ready but could be with resources being released keeps its places for the session; otherwise all is undone.

    Returns:
        whether the job was committed, so that it may be served again.

    """
    cycle.session.subject = job
    mark, given = cycle.transaction.checkpoint(), remaining.copy()
    place_tasks(PlainJob(cycle, job), remaining)
    if cycle.hooks.ready(job):
        cycle.commit(mark, job)
        return True
    refusal = cycle.hooks.vote("pipelined", job)
    if refusal is not None:
        report = cycle.report(job)
        report.pipelined = refusal
        report.discarded = cycle.transaction.rollback(mark)
        return _place_in_another_order(cycle, job, remaining, given)
    cycle.transaction.keep(mark)
    return False


def _place_in_another_order(cycle: Cycle, job: JobState, remaining: RemainingTasks, given: RemainingTasks) -> bool:
    """Try a job that is not ready again, the tasks that found no node first; whether it was committed."""
    told = cycle.reports[job.key]
    mark = cycle.transaction.checkpoint()

    def trial(tasks: RemainingTasks) -> tuple[bool, Task | None]:
        cycle.reports.pop(job.key, None)
        place_tasks(PlainJob(cycle, job), tasks)
        if cycle.hooks.ready(job):
            return True, None
        placed = bool(cycle.transaction.rollback(mark))
        return False, cycle.report(job).task if placed else None

    left = retry(given, told.task if told.discarded else None, trial)
    if left is None:
        cycle.reports[job.key] = told
        return False
    remaining.follow(left)
    cycle.commit(mark, job)
    return True


class PlainJob(TaskGroup):
    """All tasks of a job, on all nodes."""

    def missing(self) -> int:
        """As the plug-ins say of the job."""
        return self.cycle.hooks.missing(self.job)

    def ready(self) -> bool:
        """As the plug-ins say of the job."""
        return self.cycle.hooks.ready(self.job)

    def worth_going_on(self) -> bool:
        """See the function."""
        return worth_going_on(self.cycle, self.job)

    def taker(self, pod_class: PodClass, *, future: bool) -> CandidateTable:
        """The table of the class."""
        return self.cycle.tables.of(pod_class, future=future)

    def futures(self, now: int, *, nominated: bool) -> Sequence[bool]:
        """What is free first; then what is being released, and for nominated tasks what was promised to them."""
        later = nominated or self.cycle.session.releasing
        return (False,) * (now > 0) + (True,) * later

    def took(self, column: int) -> None:
        """Nothing else follows where tasks are."""

    @property
    def failed_roles(self) -> Set[str]:
        """Those of the whole cycle."""
        report = self.cycle.reports.get(self.job.key)
        return report.failed_roles if report is not None else _NO_ROLES

    def found_no_node(self, task: Task, now: int) -> None:
        """Note why."""
        cycle, queue, pod_class = self.cycle, self.job.queue, task.pod_class
        if not now:
            report = cycle.report(self.job)
            report.quota = report.quota or queue_limits.refusal(queue, pod_class, now=True)
            report.refused = report.refused or task
        note_failure(cycle, self.job, task, cycle.fits.errors(pod_class))


def worth_going_on(cycle: Cycle, job: JobState) -> bool:
    """After a task found no node: could the job still become ready with its other tasks (Volcano's rule)?"""
    if job.min_member >= job.size:
        return False
    failed = cycle.report(job).failed_roles
    if job.min_member < job.min_task_total:
        pending = sum(counts[TaskStatus.PENDING] for role, counts in _counts_by_role(job).items() if role not in failed)
        return job.ready_count + pending >= job.min_member
    return not any(
        count(job.role_counts(role), ALLOCATED_STATES) < job.min_task_member[role]
        for role in failed
        if role in job.min_task_member
    )


def _counts_by_role(job: JobState) -> dict[str, list[int]]:
    """Task counts of each role; tasks without a role count under ``""``."""
    by_role = {role: job.role_counts(role) for role in job.record.role_counts}
    rest = [total - sum(counts[i] for counts in by_role.values()) for i, total in enumerate(job.counts)]
    return {**by_role, "": rest}
