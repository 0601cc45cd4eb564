"""From a pod on the wire to a `Task`."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

from unisono.api.core import Pod
from unisono.api.times import parse_time
from unisono.cluster.podclass import PodClasses
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus

GROUP_NAME = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
TASK_SPEC = "volcano.sh/task-spec"
TASK_PRIORITY = "volcano.sh/task-priority"
PREEMPTABLE = "volcano.sh/preemptable"

_COMPARED = tuple(name for name in Task.__slots__ if name != "told")
_NOTHING: Mapping[str, str] = {}
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FINISHED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED, "Unknown": TaskStatus.UNKNOWN}


def task_of(pod: Pod, classes: PodClasses, scheduler_names: frozenset[str]) -> Task:
    """The record of a pod; whether its job, queue or node exist does not matter."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations, labels = meta.annotations or _NOTHING, meta.labels or _NOTHING
    task = Task(meta.namespace or "", meta.name, meta.uid or "", classes.intern(spec, annotations))
    group = next((annotations[key] for key in GROUP_NAME if annotations.get(key)), "")
    task.job = f"{task.namespace}/{group}" if group else ""
    task.role = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""
    task.priority = _priority(annotations, spec.priority)
    task.priority_class_name = spec.priority_class_name or ""
    task.created = parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    task.ordinal = _ordinal(meta.name)
    task.node = spec.node_name or ""
    task.status = _status(status.phase or "Pending", task.node, deleting=meta.deletion_timestamp is not None)
    task.gated = bool(spec.scheduling_gates)
    preemptable = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))
    task.preemptable = preemptable is None or preemptable in _TRUE
    task.never_preempts = spec.preemption_policy == "Never"
    task.nominated_node = status.nominated_node_name or ""
    task.owned = not spec.scheduler_name or spec.scheduler_name in scheduler_names
    task.labels, task.annotations = labels, annotations
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            task.told = (intern(condition.reason or ""), intern(condition.message or ""))
    return task


def same_task(one: Task, other: Task) -> bool:
    """Whether an event changed nothing that decisions depend on; what the pod was told is not looked at."""
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED)


def _status(phase: str, node: str, *, deleting: bool) -> TaskStatus:
    finished = _FINISHED.get(phase)
    if finished is not None:
        return finished
    if deleting:
        return TaskStatus.RELEASING
    if phase == "Running":
        return TaskStatus.RUNNING
    return TaskStatus.BOUND if node else TaskStatus.PENDING


def _priority(annotations: Mapping[str, str], spec_priority: int | None) -> int:
    text = annotations.get(TASK_PRIORITY)
    if text is not None:
        try:
            return int(text)
        except ValueError:
            pass
    return 1 if spec_priority is None else spec_priority


def _ordinal(name: str) -> int:
    """Number after the last ``-`` of ``job-role-3``; -1 when the name is not of that form."""
    head, _, tail = name.rpartition("-")
    return int(tail) if tail.isascii() and tail.isdigit() and "-" in head else -1
