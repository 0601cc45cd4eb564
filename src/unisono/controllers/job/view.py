"""A Job as the controller reads it: absent values replaced by what they mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from unisono.api.annotations import GOT, ONE_OF
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.groups.batch import Job, LifecyclePolicy, TaskSpec
from unisono.api.one_of import NodeKind, kind_told, one_of, scaled, times_of
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.jobkinds.volcano import with_defaults

# The state machine of a Job, as tables.
#
# Every action that is not in a phase's table means: bring the pods to what the spec asks for.

PENDING = "Pending"
RUNNING = "Running"
RESTARTING = "Restarting"
COMPLETING = "Completing"
COMPLETED = "Completed"
TERMINATING = "Terminating"
TERMINATED = "Terminated"
ABORTING = "Aborting"
ABORTED = "Aborted"
FAILED = "Failed"

# Pods are wanted.
ACTIVE = frozenset({PENDING, RUNNING, RESTARTING})
# Every living pod is killed; the phase that follows once none is alive.
KILLING: Mapping[str, str] = {ABORTING: ABORTED, TERMINATING: TERMINATED, COMPLETING: COMPLETED}
# The job is over and no action changes its phase again.
FINISHED = frozenset({COMPLETED, TERMINATED, FAILED})
# No pod runs and none is wanted.
STOPPED = FINISHED | {ABORTED}

RESTART_JOB = "RestartJob"
RESTART_TASK = "RestartTask"
RESTART_POD = "RestartPod"
RESTART_PARTITION = "RestartPartition"
ABORT_JOB = "AbortJob"
TERMINATE_JOB = "TerminateJob"
COMPLETE_JOB = "CompleteJob"
RESUME_JOB = "ResumeJob"
SYNC_JOB = "SyncJob"
REMAKE_PODS = "RemakePods"
"""No action of policies: the gang got a kind of nodes on which its pods take other amounts of devices."""

# Actions on a part of the job; they need an event that names a task or a pod.
TARGETED = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})


@dataclass(frozen=True, slots=True)
class Transition:
    """What an action does in a phase.

    Attributes:
        to: the phase that follows.
        whole: the job's version grows, which makes every pod of today outdated; otherwise only marked pods go.
        retry: the action counts against ``maxRetry``.
    """

    to: str
    whole: bool = True
    retry: bool = False


_STOP: Mapping[str, Transition] = {
    ABORT_JOB: Transition(ABORTING),
    TERMINATE_JOB: Transition(TERMINATING),
    COMPLETE_JOB: Transition(COMPLETING),
}
_RUN: Mapping[str, Transition] = {
    RESTART_JOB: Transition(RESTARTING, retry=True),
    RESTART_TASK: Transition(RESTARTING, whole=False, retry=True),
    RESTART_POD: Transition(RESTARTING, whole=False, retry=True),
    RESTART_PARTITION: Transition(RESTARTING, whole=False, retry=True),
    **_STOP,
}
# Within one restart further pods may have to go: that is still the same retry.
_AGAIN: Mapping[str, Transition] = {
    RESTART_JOB: Transition(RESTARTING),
    RESTART_TASK: Transition(RESTARTING, whole=False),
    RESTART_POD: Transition(RESTARTING, whole=False),
    RESTART_PARTITION: Transition(RESTARTING, whole=False),
    **_STOP,
}
# A resumed job has not failed, so resuming is no retry.
_RESUME: Mapping[str, Transition] = {RESUME_JOB: Transition(RESTARTING)}

TRANSITIONS: Mapping[str, Mapping[str, Transition]] = {
    PENDING: _RUN,
    RUNNING: _RUN,
    RESTARTING: _AGAIN,
    ABORTING: _RESUME,
    ABORTED: _RESUME,
    TERMINATING: {},
    COMPLETING: {},
    COMPLETED: {},
    TERMINATED: {},
    FAILED: {},
}


def transition(phase: str, action: str) -> Transition | None:
    """What ``action`` does in ``phase``; None when it changes nothing there."""
    return TRANSITIONS.get(phase, {}).get(action)


DEFAULT_MAX_RETRY = 3
DEFAULT_SCHEDULER = "volcano"


@dataclass(frozen=True)
class TaskView:
    """One task of a job.

    Attributes:
        job_name: name of the job.
        position: place in ``spec.tasks``.
        name: given name, or ``default<position>``.
        spec: the task as it was submitted.
        kind: of the kinds of nodes that its pods may take the one that they got, None: none yet.
        amounts_differ: pods ask for other amounts of devices on some of these kinds.
    """

    job_name: str
    position: int
    name: str
    spec: TaskSpec
    kind: NodeKind | None = None
    amounts_differ: bool = False

    @property
    def replicas(self) -> int:
        """Number of pods wanted."""
        return self.spec.replicas or 0

    @property
    def min_available(self) -> int:
        """Pods that the task needs: as given, or of the least number of partitions, or all."""
        if self.spec.min_available is not None:
            return self.spec.min_available
        partition = self.spec.partition_policy
        if partition and partition.min_partitions and partition.partition_size:
            return partition.min_partitions * partition.partition_size
        return self.replicas

    @property
    def max_retry(self) -> int:
        """Container restarts after which the task counts as failed."""
        return self.spec.max_retry or DEFAULT_MAX_RETRY

    @property
    def policies(self) -> list[LifecyclePolicy]:
        """The task's own policies, in order."""
        return self.spec.policies or []

    @cached_property
    def template(self) -> PodTemplateSpec:
        """The pod template; where pods got a kind of nodes on which they take other amounts, with these."""
        given = self.spec.template
        if not self.amounts_differ or self.kind is None:
            return given
        return msgspec.structs.replace(given, spec=scaled(given.spec, self.kind.times))

    def made_for(self, pod: Pod) -> bool:
        """Whether a pod asks for what the task's pods ask for now, as far as kinds of nodes tell."""
        made = times_of((pod.metadata.annotations or {}).get(GOT, ""))
        return self.kind is None or made == self.kind.times

    @property
    def depends_on(self) -> list[str]:
        """Names of the tasks that must be ready first."""
        return (self.spec.depends_on.name if self.spec.depends_on else None) or []

    @property
    def any_dependency(self) -> bool:
        """Whether one ready dependency is enough."""
        return bool(self.spec.depends_on and self.spec.depends_on.iteration == "any")

    def pod_name(self, index: int) -> str:
        """``<job>-<task>-<index>``."""
        return f"{self.job_name}-{self.name}-{index}"

    def partition_of(self, index: int) -> str | None:
        """Number of the partition that the pod belongs to; None without a partition policy."""
        partition = self.spec.partition_policy
        if partition is None:
            return None
        return str(index // partition.partition_size if partition.partition_size > 0 else 0)

    def hosts(self) -> list[str]:
        """Names under which the task's pods are reached: ``host.subdomain``.

        A host name fixed in the template is shared by all pods of the task and listed once.
        """
        spec = self.template.spec
        domain = spec.subdomain or self.job_name
        if spec.hostname:
            return [f"{spec.hostname}.{domain}"] if self.replicas else []
        return [f"{self.pod_name(index)}.{domain}" for index in range(self.replicas)]

    def host(self, index: int) -> str:
        """Name of one pod; the task must not be empty for it to exist."""
        spec = self.template.spec
        return f"{spec.hostname or self.pod_name(index)}.{spec.subdomain or self.job_name}"


class JobView:
    """One job; cheap to make, never changes the job."""

    def __init__(self, job: Job, got: str = "") -> None:
        """Read a job.

        Args:
            job: as it is stored.
            got: kinds of nodes that its gang got, as its PodGroup says.
        """
        self.job, self.spec, self.status, self.got = job, with_defaults(job), job.status, got
        self.most: int | None = None
        meta = job.metadata
        self.name, self.namespace, self.uid = meta.name, meta.namespace or "", meta.uid or ""

    def only(self, tasks: Sequence[TaskView]) -> JobView:
        """The job as if it had only these tasks; its gang is no larger than they are."""
        if len(tasks) == len(self.tasks):
            return self
        part = JobView(self.job, self.got)
        part.tasks, part.most = list(tasks), sum(task.replicas for task in tasks)
        return part

    @cached_property
    def tasks(self) -> list[TaskView]:
        """Tasks in the order of the spec."""
        return [
            TaskView(self.name, i, task.name or f"default{i}", task, *self._kind_of(task))
            for i, task in enumerate(self.spec.tasks or ())
        ]

    def _kind_of(self, task: TaskSpec) -> tuple[NodeKind | None, bool]:
        """The kind of nodes that pods of a task got, and whether amounts differ between those that they may take."""
        notes = self.job.metadata.annotations or {}
        said = one_of(notes, task.template.metadata.annotations or {})
        if said is None:
            return None, False
        recorded = kind_told(self.got) if ONE_OF in notes else None  # the list may have been edited since
        names = self.got.split(", ")
        kind = next((each for each in said.kinds if each.name in names), recorded)
        return kind, any(each.times != 1 for each in (*said.kinds, *((kind,) if kind is not None else ())))

    @cached_property
    def _by_name(self) -> dict[str, TaskView]:
        return {task.name: task for task in self.tasks}

    def task(self, name: str) -> TaskView | None:
        """The task of that name."""
        return self._by_name.get(name)

    @property
    def total(self) -> int:
        """Pods of all tasks."""
        return sum(task.replicas for task in self.tasks)

    @property
    def total_min_available(self) -> int:
        """Sum of what the tasks need."""
        return sum(task.min_available for task in self.tasks)

    @property
    def min_available(self) -> int:
        """Size of the gang; without a value, what the tasks need together."""
        given = self.spec.min_available
        minimum = self.total_min_available if given is None else given
        return minimum if self.most is None else min(minimum, self.most)

    @property
    def max_retry(self) -> int:
        """Restarts after which the job fails."""
        return DEFAULT_MAX_RETRY if self.spec.max_retry is None else self.spec.max_retry

    @property
    def queue(self) -> str:
        """Where the job waits."""
        return self.spec.queue or DEFAULT_QUEUE

    @property
    def scheduler_name(self) -> str:
        """Scheduler of pods whose template names none."""
        return self.spec.scheduler_name or DEFAULT_SCHEDULER

    @property
    def phase(self) -> str:
        """Current phase; empty before the first sync."""
        return self.status.state.phase or ""

    @property
    def version(self) -> int:
        """Grows with every kill of the whole job; pods of older versions are outdated."""
        return self.status.version or 0

    @property
    def retry_count(self) -> int:
        """Restarts so far."""
        return self.status.retry_count or 0

    @property
    def pod_group_name(self) -> str:
        """``<job>-<uid>``."""
        return f"{self.name}-{self.uid}"

    @property
    def finished(self) -> bool:
        """Whether the job is over for good."""
        return self.phase in FINISHED
