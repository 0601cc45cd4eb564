"""What the controller sees of a job: its objects, its pods one by one, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from unisono.api.core import Pod
from unisono.api.groups.batch import Command, Job, JobStatus, TaskState
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import CONTROLLER_OUT_OF_SYNC, JOB_VERSION, PARTITION_ID, TASK_SPEC
from unisono.api.times import time_or
from unisono.controllers import owners, pod_facts
from unisono.controllers.job import view as phases
from unisono.controllers.job.view import JobView
from unisono.controllers.owners import whole_number
from unisono.controllers.pod_facts import PodView


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a decision may look at.

    Attributes:
        job: the job.
        pods: pods whose controller it is.
        pod_group: pod group of the job's pod group name, whatever its owner.
        commands: commands for the job, oldest first.
        expected: names of pods that were created but are not visible yet.
        missing_claims: claims that the job names and that do not exist.
        priority: value of a priority class, 0 when unknown.
    """

    job: Job
    pods: Sequence[Pod] = ()
    pod_group: PodGroup | None = None
    commands: Sequence[Command] = ()
    expected: frozenset[str] = frozenset()
    missing_claims: Sequence[str] = ()
    priority: Callable[[str | None], int] = lambda _name: 0


@dataclass(frozen=True, slots=True)
class TaskPod(PodView):
    """One pod of a job.

    Attributes:
        task: name of its task; empty when its labels do not say.
        index: number within the task; -1 when the pod's name is none that the job would give.
        version: the job's version when the pod was made.
        round: the restart that marked the pod for deletion, 0 when none did.
        marked: the controller decided to delete it.
    """

    task: str
    index: int
    version: int
    round: int
    marked: bool

    @property
    def partition(self) -> str | None:
        """Number of its partition, None outside partitions."""
        return (self.pod.metadata.labels or {}).get(PARTITION_ID)

    @property
    def ended_at(self) -> float:
        """When its last container ended; its creation when no container says."""
        return pod_facts.last_end(self.pod.status.container_statuses or ()) or self.created

    @property
    def deleted(self) -> float:
        """When the deletion was asked for."""
        meta = self.pod.metadata
        return time_or(meta.deletion_timestamp) - (meta.deletion_grace_period_seconds or 0)

    @property
    def ready(self) -> bool:
        """Succeeded, or running with every container ready."""
        if self.phase == "Succeeded":
            return True
        statuses = self.pod.status.container_statuses or ()
        return self.phase == "Running" and all(status.ready for status in statuses)


@dataclass(frozen=True, slots=True)
class Tally:
    """Pods of a job by phase. Pods on their way out count as terminating and nowhere else.

    Attributes:
        tasks: task to pod phase to number of pods, terminating ones left out.
    """

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    tasks: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def alive(self) -> int:
        """Pods that hold, or still hold, resources."""
        return self.pending + self.running + self.unknown + self.terminating

    def of(self, task: str, phase: str) -> int:
        """Pods of one task in one phase."""
        return self.tasks.get(task, {}).get(phase, 0)


def see(view: JobView, pods: Iterable[Pod]) -> list[TaskPod]:
    """The job's pods, by place of their task and index, strangers last."""
    places = {task.name: task.position for task in view.tasks}
    seen = [_see(view, pod) for pod in pods]
    return sorted(seen, key=lambda pod: (places.get(pod.task, len(places)), pod.index, pod.name))


def is_doomed(pod: TaskPod, view: JobView, phase: str, version: int, reason: str) -> bool:
    """Whether the pod has to go in the given state of the job, or goes already.

    Args:
        pod: the pod.
        view: the job; its phase and version may be older than the state that is asked about.
        phase: phase of the job.
        version: version of the job.
        reason: the action that led to the phase; a resumed job keeps the pods that succeeded.
    """
    if pod.deleting or pod.marked:
        return True
    if phase not in phases.ACTIVE:
        return phase != "" and not pod.ended
    task = view.task(pod.task)
    if task is None or not 0 <= pod.index < task.replicas:
        return True
    if pod.version >= version:
        return False
    keeps_success = phase != phases.RESTARTING or reason == phases.RESUME_JOB
    return not (keeps_success and pod.phase == "Succeeded")


def tally(pods: Iterable[TaskPod], doomed: Callable[[TaskPod], bool]) -> Tally:
    """Count the pods."""
    counts: dict[str, int] = {}
    tasks: dict[str, dict[str, int]] = {}
    terminating = 0
    for pod in pods:
        if doomed(pod):
            terminating += 1
            continue
        counts[pod.phase] = counts.get(pod.phase, 0) + 1
        task = tasks.setdefault(pod.task, {})
        task[pod.phase] = task.get(pod.phase, 0) + 1
    by_phase = {name: counts.pop(name, 0) for name in ("Pending", "Running", "Succeeded", "Failed")}
    return Tally(
        pending=by_phase["Pending"],
        running=by_phase["Running"],
        succeeded=by_phase["Succeeded"],
        failed=by_phase["Failed"],
        unknown=sum(counts.values()),
        terminating=terminating,
        tasks=tasks,
    )


def recorded_pods(status: JobStatus, task: str) -> int:
    """How many pods of the task the last status counted."""
    state = (status.task_status_count or {}).get(task) or TaskState()
    return sum((state.phase or {}).values())


def _see(view: JobView, pod: Pod) -> TaskPod:
    meta = pod.metadata
    annotations = meta.annotations or {}
    task_name = annotations.get(TASK_SPEC) or (meta.labels or {}).get(TASK_SPEC) or ""
    task = view.task(task_name)
    index = -1
    if task is not None:
        number = whole_number(meta.name.rpartition("-")[2])
        if number is not None and meta.name == task.pod_name(number):
            index = number
    return TaskPod(
        pod=pod,
        task=task_name,
        index=index,
        version=whole_number(annotations.get(JOB_VERSION)) or 0,
        round=whole_number(annotations.get(owners.RESTART_ROUND)) or 0,
        marked=annotations.get(CONTROLLER_OUT_OF_SYNC) == "true",
    )
