"""What work is lost when pods are evicted: the time since it was last saved, weighed by what they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import CHECKPOINT_TIME
from unisono.api.times import parse_time
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, fitted
from unisono.cluster.status import READY_STATES, TaskStatus, count

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


class LostWork:
    """Lost work of one session, in seconds of the whole cluster.

    A pod loses the seconds since it started, or since its last checkpoint (annotation ``unisono.io/checkpoint-time`` of
    the pod, else of its PodGroup), times its dominant share: the largest part of any resource of the cluster that it
    requests. A gang that falls below its minimum loses that of all its running pods; one that is below it already has
    nothing more to lose.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._shares: dict[int, float] = {}
        self._pods: dict[str, float] = {}
        self._jobs: dict[str, float] = {}

    def of(self, leaving: Sequence[Task]) -> float:
        """What is lost when these tasks go together."""
        if len(leaving) == 1:
            return self._of_job(leaving[0].job, leaving)
        by_job: dict[str, list[Task]] = {}
        for task in leaving:
            by_job.setdefault(task.job, []).append(task)
        return sum(self._of_job(key, tasks) for key, tasks in by_job.items())

    def _of_job(self, key: str, tasks: Sequence[Task]) -> float:
        job = self.session.job(key)
        if job is None:
            return sum(self._of_pod(task, None) for task in tasks)
        if job.broken:
            return 0.0
        if not _breaks(job, tasks):
            return sum(self._of_pod(task, job) for task in tasks)
        whole = self._jobs.get(key)
        if whole is None:
            running = [task for task in job.record.tasks.values() if task.status is TaskStatus.RUNNING]
            whole = self._jobs[key] = sum(self._of_pod(task, job) for task in running)
        return whole

    def _of_pod(self, task: Task, job: JobState | None) -> float:
        if task.status is not TaskStatus.RUNNING:
            return 0.0
        lost = self._pods.get(task.key)
        if lost is None:
            lost = self._pods[task.key] = self._seconds(task, job) * self.share(task.pod_class)
        return lost

    def seconds(self, task: Task) -> float:
        """Seconds of one running pod alone since it started or was last saved."""
        return self._seconds(task, self.session.job(task.job))

    def _seconds(self, task: Task, job: JobState | None) -> float:
        began = task.since or task.created
        return max(self.session.now - max(began, _checkpoint(task, job)), 0.0)

    def share(self, pod_class: PodClass) -> float:
        """The largest part of any resource of the cluster that a pod of the class requests."""
        share = self._shares.get(pod_class.id)
        if share is None:
            total = self.session.usable_total
            held = fitted(pod_class.vector, len(total))
            wanted = (held > 0) & (np.arange(len(total)) != PODS)
            parts = held[wanted] / np.maximum(total[wanted], 1)
            share = self._shares[pod_class.id] = float(parts.max(initial=0.0))
        return share


def _checkpoint(task: Task, job: JobState | None) -> float:
    """When the work was last saved, 0.0 when that is not stated readably."""
    text = task.annotations.get(CHECKPOINT_TIME)
    if text is None and job is not None:
        text = job.record.annotations.get(CHECKPOINT_TIME)
    if text is None:
        return 0.0
    try:
        return parse_time(text)
    except ValueError:
        return 0.0


def _breaks(job: JobState, tasks: Sequence[Task]) -> bool:
    """Whether the gang falls below its minimum, or one of its roles does, when the tasks go."""
    if job.ready_count - len(tasks) < job.min_member:
        return True
    if not job.roles_apply:
        return False
    going = Counter(task.role for task in tasks)
    return any(
        count(job.role_counts(role), READY_STATES) - number < job.min_task_member.get(role, 0)
        for role, number in going.items()
    )
