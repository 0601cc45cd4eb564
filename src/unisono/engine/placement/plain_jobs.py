"""Placing the pending tasks of one job: the inner loop of allocate."""

from __future__ import annotations

from unisono.cluster.records import Task
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus, count
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState
from unisono.engine.session.task_runs import runs


class Worksheet:
    """Pending tasks of one job in runs of equal ones; what has been tried is taken off."""

    __slots__ = ("_at", "_run", "_runs")

    def __init__(self, tasks: list[Task]) -> None:
        self._runs = runs(tasks)
        self._run = 0
        self._at = 0

    def __bool__(self) -> bool:
        return self._run < len(self._runs)

    def copy(self) -> Worksheet:
        """Another sheet with the same tasks left."""
        other = Worksheet([])
        other._runs, other._run, other._at = self._runs, self._run, self._at
        return other

    def rest(self) -> list[Task]:
        """What is left of the present run; at least one task."""
        run = self._runs[self._run]
        return run[self._at :] if self._at else run

    def left(self) -> list[Task]:
        """Everything that is left, in order."""
        return [task for run in self._runs[self._run :] for task in run][self._at :]

    def done(self, number: int) -> None:
        """Take ``number`` tasks off the present run."""
        self._at += number
        if self._at >= len(self._runs[self._run]):
            self._run += 1
            self._at = 0


def place_job(cycle: Cycle, job: JobState, sheet: Worksheet) -> bool:
    """Place tasks until the job is ready, commit when it is.

    A ready job gets one more task per call, so that surplus tasks of jobs compete through the orders. A job that is
    not ready but could be with resources being released keeps its places for the session; otherwise all is undone.

    Returns:
        whether the job was committed, so that it may be served again.

    """
    cycle.session.subject = job
    mark = cycle.transaction.checkpoint()
    _place_until_ready(cycle, job, sheet)
    if cycle.hooks.ready(job):
        cycle.commit(mark, job)
        return True
    refusal = cycle.hooks.vote("pipelined", job)
    if refusal is not None:
        report = cycle.report(job)
        report.pipelined = refusal
        report.discarded = cycle.transaction.rollback(mark)
    else:
        cycle.transaction.keep(mark)
    return False


def _place_until_ready(cycle: Cycle, job: JobState, sheet: Worksheet) -> None:
    hooks = cycle.hooks
    missing = hooks.missing(job)
    while sheet:
        tasks = sheet.rest()
        first = tasks[0]
        if first.role and (report := cycle.reports.get(job.key)) is not None and first.role in report.failed_roles:
            sheet.done(len(tasks))
            continue
        room = hooks.headroom(job.queue, first.pod_class, len(tasks))
        if room == 0:
            refuse(cycle, job, first)
            sheet.done(len(tasks))
            continue
        allocated, tried = _place_run(cycle, job, tasks[: room if missing > 0 else min(room, 1)], max(missing, 1))
        if tried:
            missing -= allocated
            sheet.done(tried)
            if missing <= 0 and hooks.ready(job):
                return
            continue
        sheet.done(len(tasks))
        if not worth_going_on(cycle, job):
            return


def refuse(cycle: Cycle, job: JobState, task: Task) -> None:
    """Note that a quota lets the job have no more tasks of this kind."""
    report = cycle.report(job)
    if report.quota is None:
        report.quota = cycle.hooks.allocatable(job.queue, task.pod_class)
        report.refused = task


def _place_run(cycle: Cycle, job: JobState, tasks: list[Task], wanted: int) -> tuple[int, int]:
    """Place up to ``wanted`` equal tasks on free resources, or, where none is free, all on resources being released.

    Returns:
        tasks that hold free resources, and tasks dealt with; (0, 0) when no node takes the first.

    """
    first = tasks[0]
    reason = cycle.hooks.prefilter(first) if cycle.hooks.has("prefilter") else None
    if reason is not None:
        note_failure(cycle, job, first, cycle.fits.refused(reason))
        return 0, 0
    if first.nominated_node and (status := _place_nominated(cycle, job, first)) is not None:
        return int(status is TaskStatus.ALLOCATED), 1
    now = min(wanted, queue_limits.room(job.queue, first.pod_class, now=True))
    columns = cycle.transaction.place(job, tasks[:now], cycle.tables.of(first.pod_class)) if now else []
    if columns:
        return len(columns), len(columns)
    if cycle.session.releasing:
        columns = cycle.transaction.place(job, tasks, cycle.tables.of(first.pod_class, future=True))
        if columns:
            return 0, len(columns)
    if not now:
        report = cycle.report(job)
        report.quota = report.quota or queue_limits.refusal(job.queue, first.pod_class, now=True)
        report.refused = report.refused or first
    note_failure(cycle, job, first, cycle.fits.errors(first.pod_class))
    return 0, 0


def _place_nominated(cycle: Cycle, job: JobState, task: Task) -> TaskStatus | None:
    """The node that an earlier cycle chose for the task, when it takes it."""
    column = cycle.session.nodes.table.index.get(task.nominated_node)
    if column is None:
        return None
    now = queue_limits.room(job.queue, task.pod_class, now=True) > 0
    for future in (False, True) if now else (True,):
        table = cycle.tables.of(task.pod_class, future=future)
        table.follow()
        if table.total[column] > float("-inf"):
            cycle.transaction.place_on(job, task, column, pipelined=future)
            return TaskStatus.PIPELINED if future else TaskStatus.ALLOCATED
    return None


def note_failure(cycle: Cycle, job: JobState, task: Task, errors: FitErrors) -> None:
    """Note that no node takes a task."""
    report = cycle.report(job)
    if task.role:
        report.failed_roles.add(task.role)
    if report.fit is None:
        report.task, report.fit = task, errors


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
