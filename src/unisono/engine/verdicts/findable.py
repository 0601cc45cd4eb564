"""How many pods of a gang would find a place: each kind of them is tried, whatever becomes of the others.

An action gives a gang up as soon as it can no longer start, and then says nothing of the pods that it has not tried.
Here they are placed as the action would and taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

from unisono.cluster.records import Task
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors
from unisono.engine.placement.other_ways import RemainingTasks
from unisono.engine.placement.plain_jobs import PlainJob
from unisono.engine.placement.task_loop import place_tasks
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import is_grouped

MOST_PODS = 4_000
"""Pods of gangs of several kinds that are tried in one cycle."""


@dataclass(slots=True)
class _Left:
    """How many pods may still be tried in this cycle."""

    pods: int = MOST_PODS


class _EveryKind(PlainJob):
    """All tasks of a job, on all nodes, without an end where some find none; failures are not reported."""

    def ready(self) -> bool:
        """Never: all are tried."""
        return False

    def may_start(self, left: RemainingTasks) -> bool:
        """Always."""
        return True

    def refused(self, task: Task, errors: FitErrors) -> None:
        """Nothing is kept."""

    def found_no_node(self, task: Task, now: int) -> None:
        """Nothing is kept."""


def findable(cycle: Cycle, job: JobState, known: int) -> int:
    """Pods of a gang below its minimum that have a place or would find one, at most one less than the minimum.

    Args:
        cycle: after its actions; it is left as it was.
        job: waits.
        known: how many the actions placed before they gave the job up; the answer where all its pods are alike.

    """
    if known >= job.min_member or is_grouped(job, cycle.session.snapshot.hyper_nodes):
        return known
    tasks = cycle.pending(job)
    if len({task.pod_class.id for task in tasks}) < 2:
        return known
    left = cycle.session.shared.of(_Left, _Left)
    if len(tasks) > left.pods:
        return known
    left.pods -= len(tasks)
    subject, cycle.session.subject = cycle.session.subject, job
    mark = cycle.transaction.checkpoint()
    noted = cycle.reports.get(job.key)
    quota = (noted.quota, noted.refused) if noted is not None else None
    try:
        place_tasks(_EveryKind(cycle, job), RemainingTasks(tasks))
        found = job.ready_count
    finally:
        cycle.transaction.rollback(mark)
        cycle.session.subject = subject
        if noted is None:
            cycle.reports.pop(job.key, None)
        elif quota is not None:
            noted.quota, noted.refused = quota
    return max(known, min(found, job.min_member - 1))
