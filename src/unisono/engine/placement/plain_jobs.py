"""Placing the waiting tasks of a job without topology and sub-groups: all of it is one group, on all nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import READY_STATES, TaskStatus, count
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.cycle.transaction import Taker
from unisono.engine.placement.domain_search import DomainTaker
from unisono.engine.placement.other_ways import Attempts, Effort, Outcome, Within, retry
from unisono.engine.placement.remaining_tasks import RemainingTasks
from unisono.engine.placement.task_loop import TaskGroup, note_failure, place_tasks
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import SubGroup

_PLACED = (*READY_STATES, TaskStatus.PIPELINED)


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
        return _place_in_another_way(cycle, job, remaining, given)
    cycle.transaction.keep(mark)
    return False


def _place_in_another_way(cycle: Cycle, job: JobState, remaining: RemainingTasks, given: RemainingTasks) -> bool:
    """Try a job that is not ready again; whether it was committed. Else that trial is told of which placed most."""
    told = cycle.reports[job.key]
    mark = cycle.transaction.checkpoint()

    def trial(tasks: RemainingTasks, within: Within) -> Outcome:
        nonlocal told
        cycle.reports.pop(job.key, None)
        place_tasks(PlainJob(cycle, job, within), tasks)
        if cycle.hooks.ready(job):
            return Outcome(started=True)
        report = cycle.report(job)
        report.discarded, report.pipelined = cycle.transaction.rollback(mark), told.pipelined
        if report.fit is not None and report.schedulable() > told.schedulable():
            told = report
        return _outcome(report)

    attempts = Attempts(given, max(cycle.hooks.missing(job), 1), None, trial, Effort())
    left = retry(cycle, attempts, _outcome(told))
    if left is None:
        cycle.reports[job.key] = told
        return False
    remaining.follow(left)
    cycle.commit(mark, job)
    return True


def _outcome(failed: JobReport) -> Outcome:
    placed = sum(len(placement.tasks) for placement in failed.discarded)
    return Outcome(started=False, stuck=failed.task if placed else None, placed=placed)


class PlainJob(TaskGroup):
    """All tasks of a job, on all nodes."""

    def missing(self) -> int:
        """As the plug-ins say of the job."""
        return self.cycle.hooks.missing(self.job)

    def ready(self) -> bool:
        """As the plug-ins say of the job."""
        return self.cycle.hooks.ready(self.job)

    def may_start(self, left: RemainingTasks) -> bool:
        """See the function."""
        return may_start(self.job, left)

    def taker(self, pod_class: PodClass, *, future: bool) -> Taker:
        """The table of the class, or the part of it to which the trial is kept."""
        table, kept = self.cycle.tables.of(pod_class, future=future), self.within.nodes.get(pod_class.id)
        if kept is None:
            return table
        group = SubGroup(self.job, self.cycle.session.snapshot.hyper_nodes, self.job.key, -1, 0)
        return DomainTaker(table, np.flatnonzero(kept), group, self.cycle.hooks)

    def futures(self, now: int, *, nominated: bool) -> Sequence[bool]:
        """What is free first; then what is being released, and for nominated tasks what was promised to them."""
        later = nominated or self.cycle.session.releasing
        return (False,) * (now > 0) + (True,) * later

    def took(self, column: int) -> None:
        """Nothing else follows where tasks are."""

    def found_no_node(self, task: Task, now: int) -> None:
        """Note why."""
        cycle, pod_class = self.cycle, task.pod_class
        if not now:
            report = cycle.report(self.job)
            report.quota = report.quota or queue_limits.refusal(self.job, pod_class, now=True)
            report.refused = report.refused or task
        note_failure(cycle, self.job, task, cycle.fits.errors(pod_class))


def may_start(job: JobState, left: RemainingTasks) -> bool:
    """After a task found no node: could the job still become ready with those that are ``left``?"""
    if job.ready_count + job.waiting_count + len(left) < job.min_member:
        return False
    if not job.roles_apply:
        return True
    coming = Counter(task.role for task in left.left())
    needs = job.min_task_member.items()
    return all(count(job.role_counts(role), _PLACED) + coming[role] >= need for role, need in needs)
