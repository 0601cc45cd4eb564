"""Orders to jobs and queues: commands as ``vcctl`` sends them, and the patch that changes a task's size (pure)."""

from __future__ import annotations

from typing import Any, Literal

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.groups.batch import Command, Job
from unisono.api.groups.scheduling import Queue
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, QUEUES
from unisono.sdk.errors import BadWork

JobAction = Literal["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"]
QueueAction = Literal["OpenQueue", "CloseQueue"]

QUEUE_COMMANDS = "default"
"""Namespace of commands to queues, which themselves are in none."""


def job_command(job: Job, action: JobAction) -> Command:
    """The order to a job: it names this incarnation of the job, and goes with it."""
    target = _reference(JOBS, job)
    return _command(job.metadata.namespace or "default", action, target)


def queue_command(queue: Queue, action: QueueAction) -> Command:
    """The order to a queue."""
    return _command(QUEUE_COMMANDS, action, _reference(QUEUES, queue))


def scale_patch(job: Job, task: str, replicas: int) -> list[dict[str, Any]]:
    """A JSON patch after which ``task`` has ``replicas`` pods.

    Where the task, or the job, starts with all of its pods or not at all, that stays so. The patch holds for this
    version of the job only: a server refuses it (`Conflict`) when the job was changed meanwhile.

    Raises:
        BadWork: the job has no such task, or the number is negative.

    """
    tasks = job.spec.tasks or []
    names = [each.name for each in tasks]
    if task not in names:
        raise BadWork(f"the job {job.metadata.name} has no task {task!r}: its tasks are {', '.join(names)}.")
    if replicas < 0:
        raise BadWork(f"replicas of task {task} must be 0 or more, and not {replicas}.")
    index = names.index(task)
    old = tasks[index].replicas or 0
    least = tasks[index].min_available
    at = f"/spec/tasks/{index}"
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": "/metadata/resourceVersion", "value": job.metadata.resource_version},
        {"op": "add", "path": f"{at}/replicas", "value": replicas},
    ]
    if least is not None:
        needed = replicas if least == old else min(least, replicas)
        patch.append({"op": "add", "path": f"{at}/minAvailable", "value": needed})
    total = sum(each.replicas or 0 for each in tasks)
    gang = job.spec.min_available
    if gang is not None:
        changed = total - old + replicas
        needed = changed if gang == total else min(gang, changed)
        patch.append({"op": "add", "path": "/spec/minAvailable", "value": needed})
    return patch


def _reference(kind: Kind[Any], item: Job | Queue) -> OwnerReference:
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=item.metadata.name,
        uid=item.metadata.uid or "",
        controller=True,
        block_owner_deletion=True,
    )


def _command(namespace: str, action: str, target: OwnerReference) -> Command:
    metadata = ObjectMeta(
        generate_name=f"{target.name}-{action.lower()}-", namespace=namespace, owner_references=[target]
    )
    return Command(metadata=metadata, action=action, target=target)
