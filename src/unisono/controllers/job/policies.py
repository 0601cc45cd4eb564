"""Lifecycle policies: what happened to a job, which action that asks for, and how long a restart waits."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from unisono.api.annotations import PROGRESS
from unisono.api.conditions import pod_failure
from unisono.api.failed_nodes import early_seconds
from unisono.api.groups.batch import LifecyclePolicy
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import JOB_VERSION
from unisono.api.pod_states import failed_on_its_node
from unisono.api.times import parse_duration, parse_time, time_or
from unisono.controllers.job import view as phases
from unisono.controllers.job.observed import TaskPod, recorded_pods
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.owners import whole_number

# How long a job, or a part of one, waits between restarts: the more have gone before, the longer.

# The second restart waits about so long, each further one twice as long as the one before.
BASE_SECONDS = 10.0
MOST_SECONDS = 300.0
# Waits differ by up to this part up and down, so that jobs that failed together do not come back together.
SPREAD = 0.25


def restart_delay(uid: str, retry_count: int) -> float:
    """Seconds between a restart and the pods that it brings; none for the first.

    Args:
        uid: the job's UID: the same job waits equally long, also after a crash.
        retry_count: restarts so far, this one included.
    """
    if retry_count < 2:
        return 0.0
    delay = min(MOST_SECONDS, BASE_SECONDS * 2.0 ** min(retry_count - 2, 16))
    share = int.from_bytes(hashlib.sha256(f"{uid}/{retry_count}".encode()).digest()[:4]) / 2**32
    return delay * (1.0 - SPREAD + 2.0 * SPREAD * share)


# What happened to a job, read from the state of its objects.
#
# Policies speak of events. An event that only a watcher could see would be lost with the process that saw it; so every
# event is found again from what is there: a pod that failed stays failed until a policy has acted on it, a pod that is
# missing although the last status counted it was evicted, a pod that waits has waited since its creation.

POD_PENDING = "PodPending"
POD_FAILED = "PodFailed"
POD_EVICTED = "PodEvicted"
TASK_COMPLETED = "TaskCompleted"
TASK_FAILED = "TaskFailed"
UNKNOWN = "Unknown"

# Prefix of entries of status.controlledResources that keep when a pod was evicted while a policy waits.
EVICTED_PREFIX = "evicted-"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event of a job.

    Attributes:
        event: name as policies use it.
        since: when it happened, seconds since 1970.
        text: what happened, for people.
        task: the task concerned; empty when the whole job is.
        pod: name of the pod concerned.
        partition: partition of that pod.
        exit_codes: codes other than 0 with which the pod's containers ended.
        lasted: seconds between the start of the pod that failed and its end, if it has not told of a step.
    """

    event: str
    since: float
    text: str
    task: str = ""
    pod: str = ""
    partition: str | None = None
    exit_codes: frozenset[int] = frozenset()
    lasted: float = math.inf


def occurrences(
    view: JobView, pods: list[TaskPod], pod_group: PodGroup | None, expected: frozenset[str], now: float
) -> list[Occurrence]:
    """Everything that a policy may act on now, oldest first.

    Args:
        view: the job.
        pods: its pods.
        pod_group: its pod group.
        expected: names of pods that were made but are not visible yet.
        now: seconds since 1970; the time of events that no object dates.
    """
    by_task: dict[str, list[TaskPod]] = {task.name: [] for task in view.tasks}
    for pod in pods:
        if pod.task in by_task:
            by_task[pod.task].append(pod)
    occurred: list[Occurrence] = []
    for task in view.tasks:
        mine = by_task[task.name]
        current = [
            pod for pod in mine if pod.version >= view.version and not pod.marked and 0 <= pod.index < task.replicas
        ]
        occurred += [occurrence for pod in current for occurrence in _of_pod(pod)]
        occurred += _of_task(task, mine, current)
        occurred += _lost(view, task, mine, expected, now)
    occurred += _remembered(view, pods, occurred)
    lost = pod_group is not None and pod_group.status.phase == UNKNOWN and _may_have_lost(view, pods)
    if pod_group is not None and lost and group_version(view, pod_group) == view.version:
        occurred.append(Occurrence(UNKNOWN, now, "the pod group has lost a part of its pods"))
    return sorted(occurred, key=lambda o: (o.since, o.task, o.pod))


def _may_have_lost(view: JobView, pods: Iterable[TaskPod]) -> bool:
    """Whether the gang has been whole since the job began or was restarted, and is not now.

    Where tasks depend on others, those that run wait for the rest of the gang: nothing is lost yet.
    """
    if not any(task.depends_on for task in view.tasks):
        return True
    if sum(pod.phase in ("Running", "Succeeded") and not pod.deleting for pod in pods) >= view.min_available:
        return False
    past = [condition.status for condition in view.status.conditions or ()]
    if phases.RUNNING not in past:
        return False
    return phases.RESTARTING not in past or past.index(phases.RUNNING) > past.index(phases.RESTARTING)


def group_version(view: JobView, pod_group: PodGroup) -> int:
    """Version of the job for which the pod group was made; one that does not say belongs to today's."""
    version = whole_number((pod_group.metadata.annotations or {}).get(JOB_VERSION))
    return view.version if version is None else version


def _of_pod(pod: TaskPod) -> Iterator[Occurrence]:
    if pod.deleting:
        yield _at(pod, POD_EVICTED, pod.deleted, f"pod {pod.name} was deleted")
    if pod.phase == "Failed":
        text = pod_failure(pod.name, pod.exit_codes, pod.pod.status.reason)
        yield replace(_at(pod, POD_FAILED, pod.ended_at, text, pod.exit_codes), lasted=_before_a_step(pod))
    elif pod.phase == "Pending" and not pod.deleting:
        yield _at(pod, POD_PENDING, pod.created, f"pod {pod.name} is pending")


def _before_a_step(pod: TaskPod) -> float:
    """Seconds that a pod ran before it failed; infinite where it has told of a step, or the failure is no node's."""
    said = (pod.pod.metadata.annotations or {}).get(PROGRESS, "").strip()
    if not failed_on_its_node(pod.pod) or (said and not said.startswith("0/")):
        return math.inf
    return max(pod.ended_at - time_or(pod.pod.status.start_time, pod.created), 0.0)


def _of_task(task: TaskView, pods: list[TaskPod], current: list[TaskPod]) -> Iterator[Occurrence]:
    done = [pod for pod in pods if pod.phase == "Succeeded" and not pod.marked]
    if task.replicas and len(done) >= task.replicas and any(pod.phase == "Succeeded" for pod in current):
        last = max(done, key=lambda pod: pod.ended_at)
        yield _at(last, TASK_COMPLETED, last.ended_at, f"all pods of task {task.name} succeeded")
    living = [pod for pod in current if pod.phase in ("Running", "Pending") and not pod.deleting]
    restarts = sum(pod.restarts for pod in living)
    if living and restarts >= task.max_retry:
        worst = max(living, key=lambda pod: pod.restarts)
        yield _at(worst, TASK_FAILED, worst.created, f"containers of task {task.name} were restarted {restarts} times")


def _lost(
    view: JobView, task: TaskView, pods: list[TaskPod], expected: frozenset[str], now: float
) -> Iterator[Occurrence]:
    """Pods that were counted in the last status and vanished without being seen on their way out."""
    here = {pod.index for pod in pods}
    counted = sum(1 for pod in pods if not pod.marked and 0 <= pod.index < task.replicas)
    missing = min(recorded_pods(view.status, task.name), task.replicas) - counted
    for index in range(task.replicas):
        name = task.pod_name(index)
        if missing <= 0:
            return
        if index not in here and name not in expected:
            missing -= 1
            yield Occurrence(
                POD_EVICTED, now, f"pod {name} is gone", task.name, name, partition=task.partition_of(index)
            )


def _remembered(view: JobView, pods: list[TaskPod], found: Iterable[Occurrence]) -> Iterator[Occurrence]:
    """Evictions on which a policy waits, until the pod's successor runs."""
    fresh = {o.pod for o in found if o.event == POD_EVICTED}
    settled = {pod.name for pod in pods if pod.phase in ("Running", "Succeeded") and not pod.deleting}
    for key, text in (view.status.controlled_resources or {}).items():
        pod_name = key.removeprefix(EVICTED_PREFIX)
        if pod_name == key or pod_name in fresh or pod_name in settled:
            continue
        task, index = _place(view, pod_name)
        if task is not None:
            since = parse_time(text)
            yield Occurrence(
                POD_EVICTED, since, f"pod {pod_name} was deleted", task.name, pod_name, task.partition_of(index)
            )


def _place(view: JobView, pod_name: str) -> tuple[TaskView | None, int]:
    for task in view.tasks:
        index = whole_number(pod_name.rpartition("-")[2])
        if index is not None and index < task.replicas and task.pod_name(index) == pod_name:
            return task, index
    return None, -1


def _at(pod: TaskPod, event: str, since: float, text: str, exit_codes: frozenset[int] = frozenset()) -> Occurrence:
    return Occurrence(event, since, text, pod.task, pod.name, pod.partition, exit_codes)


# Lifecycle policies: which action an event asks for, now or after a while.

ANY_EVENT = "*"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A policy that answers an occurrence.

    Attributes:
        occurrence: what happened.
        action: what to do.
        due: when, seconds since 1970.
    """

    occurrence: Occurrence
    action: str
    due: float


@dataclass(slots=True)
class Verdicts:
    """What the policies say.

    Attributes:
        now: actions that are due: at most one on the whole job, or any number on parts of it.
        waiting: actions whose time has not come.
    """

    now: list[Verdict] = field(default_factory=list)
    waiting: list[Verdict] = field(default_factory=list)

    @property
    def next_due(self) -> float | None:
        """When the next waiting action is due."""
        return min((verdict.due for verdict in self.waiting), default=None)


def judge(view: JobView, occurrences: Iterable[Occurrence], now: float) -> Verdicts:
    """Ask the policies about each occurrence, oldest first.

    An action on the whole job makes everything after it void. Actions on parts of the job add up until then.
    """
    verdicts = Verdicts()
    for occurrence in occurrences:
        policy = _RESTARTED if _goes_elsewhere(view, occurrence) else _policy_for(view, occurrence)
        if policy is None:
            continue
        action = policy.action or phases.SYNC_JOB
        change = phases.transition(view.phase, action)
        if change is None or not _has_target(action, occurrence):
            continue
        verdict = Verdict(occurrence, action, occurrence.since + _delay(policy))
        if verdict.due > now:
            verdicts.waiting.append(verdict)
        elif not change.whole:
            verdicts.now.append(verdict)
        elif not verdicts.now:
            verdicts.now.append(verdict)
            return verdicts
        else:
            # The parts go first; the phase that follows looks again.
            return verdicts
    return verdicts


_RESTARTED = LifecyclePolicy(action=phases.RESTART_JOB)


def _goes_elsewhere(view: JobView, occurrence: Occurrence) -> bool:
    """Whether a job starts again elsewhere, once: a pod failed soon after its start, and the job asks for that."""
    first = occurrence.event == POD_FAILED and not view.retry_count
    return first and occurrence.lasted < early_seconds(view.job.metadata.annotations)


def _has_target(action: str, occurrence: Occurrence) -> bool:
    """Actions on a part of the job need an event that names that part."""
    if action == phases.RESTART_PARTITION:
        return occurrence.partition is not None
    return action not in phases.TARGETED or bool(occurrence.task)


def _policy_for(view: JobView, occurrence: Occurrence) -> LifecyclePolicy | None:
    """The first policy of the task that matches, or else the first of the job."""
    task = view.task(occurrence.task)
    lists: list[Sequence[LifecyclePolicy]] = [task.policies] if task else []
    lists.append(view.spec.policies or ())
    for policies in lists:
        for policy in policies:
            if _matches(policy, occurrence):
                return policy
    return None


def _matches(policy: LifecyclePolicy, occurrence: Occurrence) -> bool:
    events = [*(policy.events or ()), *([policy.event] if policy.event else ())]
    if occurrence.event == POD_PENDING and not policy.timeout:
        # Every pod is pending at first: without a time-out the policy would never let one start.
        return False
    if occurrence.event in events or ANY_EVENT in events:
        return True
    if policy.exit_code is None or occurrence.event != POD_FAILED:
        return False
    return policy.exit_code in occurrence.exit_codes


def _delay(policy: LifecyclePolicy) -> float:
    if not policy.timeout:
        return 0.0
    try:
        return max(0.0, parse_duration(policy.timeout))
    except ValueError:
        # The API refuses such a text; one that came in another way must not hold up the whole job.
        return 0.0
