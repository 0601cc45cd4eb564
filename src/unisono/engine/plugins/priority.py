"""priority: higher priority first, and only lower priority is preempted. No arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Key, Purpose
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup
    from unisono.engine.session.victims import VictimJobs


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
