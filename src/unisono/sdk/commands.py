"""Orders to jobs and queues: commands as ``vcctl`` sends them (pure)."""

from __future__ import annotations

from typing import Any, Literal

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.groups.batch import Command, Job
from unisono.api.groups.scheduling import Queue
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS, QUEUES

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
