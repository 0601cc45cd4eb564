"""What of a job may change while a member has its copy, and how the copy follows: JSON patches (pure).

A copy that is held back has no pods: all its tasks have no replicas. To open it is to bring its sizes to what the job
asks for, which is also how a job that runs is scaled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.batch import Job, JobSpec
from unisono.controllers.job.defaults import with_defaults

Operation = dict[str, Any]


def can_be_held(job: Job) -> bool:
    """Whether a copy without pods is allowed: a task with a partition policy has as many as its partitions, always."""
    return all(task.partition_policy is None for task in job.spec.tasks or ())


def is_held(copied: Job) -> bool:
    """Whether a copy has no pods at present."""
    return not any(task.replicas for task in copied.spec.tasks or ())


def held_back(spec: dict[str, Any]) -> dict[str, Any]:
    """A Job's spec, as JSON, without pods."""
    tasks = [{**task, "replicas": 0, "minAvailable": 0} for task in spec.get("tasks") or ()]
    return {**spec, "minAvailable": 0, "tasks": tasks}


def job_changes(job: Job, copied: Job, *, held: bool = False) -> list[Operation]:
    """JSON patch that brings a copy's sizes and priority to the job's; empty where they agree.

    Args:
        job: the hub's job.
        copied: its copy.
        held: the copy is to have no pods.

    """
    found = list(_changes(with_defaults(job), copied.spec, held=held))
    return [{"op": "test", "path": "/metadata/uid", "value": copied.metadata.uid}, *found] if found else []


def _changes(wanted: JobSpec, found: JobSpec, *, held: bool) -> Iterator[Operation]:
    tasks = list(zip(wanted.tasks or (), found.tasks or (), strict=False))
    if len(tasks) != len(wanted.tasks or ()) or len(tasks) != len(found.tasks or ()):
        return
    for index, (task, before) in enumerate(tasks):
        path = f"/spec/tasks/{index}"
        yield from _set(f"{path}/replicas", 0 if held else task.replicas, before.replicas)
        yield from _set(f"{path}/minAvailable", 0 if held else task.min_available, before.min_available)
    yield from _set("/spec/minAvailable", 0 if held else wanted.min_available, found.min_available)
    yield from _set("/spec/priorityClassName", wanted.priority_class_name or None, found.priority_class_name or None)


def _set(path: str, wanted: Any, found: Any) -> Iterator[Operation]:
    """What the job does not say is the member's to fill in; a priority that is taken away goes."""
    if wanted == found:
        return
    if wanted is not None:
        yield {"op": "add", "path": path, "value": wanted}
    elif path.endswith("priorityClassName"):
        yield {"op": "remove", "path": path}
