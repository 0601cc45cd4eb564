"""priority and sla: jobs of higher priority come first, and those that have waited for too long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import SLA_WAITING_TIME
from unisono.api.times import duration_or_none
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, Key, Purpose, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup
    from unisono.engine.session.victims import VictimJobs


# priority: higher priority first, and only lower priority is preempted. No arguments.


class PriorityPlugin(Plugin):
    """Orders tasks by pod priority and jobs by the priority of their PodGroup."""

    name = "priority"
    by_shape = True
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Keep the session: victims are looked up by job."""
        self.session = session

    def job_key(self, job: JobState) -> Key:
        """Higher PriorityClass value first."""
        return -job.priority

    def task_key(self, task: Task) -> Key:
        """Higher pod priority first."""
        return -task.priority

    def group_key(self, group: SubGroup) -> Key:
        """Sub-groups with the most important task first."""
        return -group.priority

    def starving(self, job: JobState) -> bool:
        """Some of its pods hold no place yet."""
        return job.ready_count + job.waiting_count < job.size

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks of jobs with strictly lower priority; within the actor's own job, tasks with a lower one."""
        if purpose is Purpose.GANG_RECLAIM:
            return np.ones(len(candidates), dtype=np.bool_)
        if purpose not in (Purpose.PREEMPT, Purpose.GANG_PREEMPT):
            return None
        return np.array([self._lower(actor, task, other) for other in candidates], dtype=np.bool_)

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs of lower priority, and the actor's own."""
        if purpose not in (Purpose.PREEMPT, Purpose.GANG_PREEMPT):
            return None
        lower = np.asarray(jobs.priority < actor.priority)
        own = jobs.number.get(actor.key)
        if own is not None:
            lower[own] = True
        return lower

    def _lower(self, actor: JobState, task: Task | None, other: Task) -> bool:
        if other.job == actor.key:
            return task is not None and other.priority < task.priority
        job = self.session.job(other.job)
        return job is not None and job.priority < actor.priority


# sla: a job that has waited too long is admitted, and keeps the places that it could get so far.
#
# List it in an earlier tier than the plug-ins that would refuse: a refusal within a tier wins, a permit ends the walk.

_WAITING = Argument("sla-waiting-time", "duration", None, "how long any job may wait")
_KEYS = (SLA_WAITING_TIME, "sla-waiting-time")


class SlaPlugin(Plugin):
    """Serves jobs with a limit on their waiting time before others, the next deadline first."""

    name = "sla"
    permits_only = True
    known_arguments = (_WAITING,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.limit = _positive(argument_value(_WAITING, self.arguments))

    def open(self, session: Session) -> None:
        """Remember the time."""
        self.session = session
        self._evictions: Counter[str] = Counter()

    def deadline(self, job: JobState) -> float | None:
        """When the job has waited too long, seconds since the epoch; None without a limit."""
        limit = _of_job(job.record.annotations)
        limit = self.limit if limit is None else limit
        return None if limit is None else job.created + limit

    def job_key(self, job: JobState) -> Key:
        """Jobs with a deadline first, the earliest of them first."""
        deadline = self.deadline(job)
        return (1, 0.0) if deadline is None else (0, deadline)

    def enqueueable(self, job: JobState) -> Vote:
        """Permit once the deadline has passed."""
        return self._late(job)

    def pipelined(self, job: JobState) -> Vote:
        """Permit once the deadline has passed: no other job gets the places that the job has found in this cycle.

        Never for places that others would be evicted from: without the whole gang they would go for nothing.
        """
        return Vote.ABSTAIN if self._evictions[job.key] else self._late(job)

    def _late(self, job: JobState) -> Vote:
        deadline = self.deadline(job)
        return Vote.ABSTAIN if deadline is None or self.session.now < deadline else Vote.PERMIT

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Count what is being evicted for the job that is served."""
        subject = self.session.subject
        if subject is not None and TaskStatus.RELEASING in (before, after):
            self._evictions[subject.key] += len(tasks) if after is TaskStatus.RELEASING else -len(tasks)


def _of_job(annotations: Mapping[str, str]) -> float | None:
    for key in _KEYS:
        if key in annotations:
            return _positive(annotations[key])
    return None


def _positive(text: str | None) -> float | None:
    """Seconds; an unreadable limit, or one that is not positive, is none."""
    limit = duration_or_none(text)
    return limit if limit is not None and limit > 0 else None
