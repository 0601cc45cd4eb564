"""Orders to jobs and queues: stop, resume, resize, and commands as ``vcctl`` sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.groups.batch import Command, Job
from unisono.api.groups.scheduling import Queue
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS
from unisono.api.kinds import COMMANDS, JOBS, QUEUES
from unisono.errors import Conflict
from unisono.jobkinds.kind import JobKind, NoSuchField, Patch
from unisono.jobkinds.paths import first
from unisono.jobkinds.registry import JOB_KINDS, has_ended, job_kind
from unisono.sdk.errors import BadWork
from unisono.sdk.state.dependents import dependents

if TYPE_CHECKING:
    from unisono.kube.client import Client, PatchType

# What can be asked of each kind of job: how it is suspended, cancelled and changed in size (pure).

Json = dict[str, Any]


def job_kind_of(kind: Kind[Any]) -> JobKind | None:
    """What can be done with jobs of a kind; None where it is no job."""
    job_kind_of_kind = job_kind(kind)
    return job_kind_of_kind if job_kind_of_kind is not None and job_kind_of_kind.ends else None


def is_job(api_version: str, kind: str) -> bool:
    """Whether a manifest's apiVersion and kind are those of a job, in whatever version."""
    return any(each.matches(api_version, kind) for each in JOB_KINDS)


def named(name: str) -> Kind[Any]:
    """The kind of job that a user means by ``PyTorchJob``, ``pytorchjob``, ``pytorchjobs`` or ``jobs.batch``.

    Raises:
        BadWork: there is none; names those that there are.
    """
    lowered = name.lower()
    for each in JOB_KINDS:
        names = (
            each.kind.lower(),
            each.plural,
            each.singular_name,
            each.resource,
            f"{each.singular_name}.{each.group}",
        )
        if lowered in (*names, *each.short_names):
            return each
    choices = ", ".join(dict.fromkeys(each.kind if each is not BATCH_JOBS else "job.batch" for each in JOB_KINDS))
    raise BadWork(f"{name!r} is no kind of job: give one of {choices}.")


def suspend_patch(job_kind: JobKind, value: bool) -> Json:
    """The merge patch that suspends a job, or lets it go on.

    Raises:
        BadWork: its kind cannot be suspended.
    """
    try:
        return job_kind.suspended(value)
    except NoSuchField as error:
        raise BadWork(str(error)) from error


def size_patch(job_kind: JobKind, job: Any, task: str, replicas: int) -> Patch:
    """The patch after which a part of the job has so many replicas: a merge patch, or a list of operations.

    Args:
        job_kind: of the job.
        job: as the server has it.
        task: a task, role or worker group; ``pod`` where all pods are alike.
        replicas: number.

    Raises:
        BadWork: there is no such part, its limits do not allow the number, or jobs of this kind keep their size.
    """
    try:
        return job_kind.resize(job, task, replicas)
    except NoSuchField as error:
        raise BadWork(str(error)) from error


# Orders to jobs and queues: commands as ``vcctl`` sends them (pure).

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


# Stops, resumes and resizes jobs of any kind on a server.

SCALE_ATTEMPTS = 10


async def send_action(client: Client, kind: Kind[Any], namespace: str, name: str, action: JobAction) -> None:
    """Stop or resume a job: by a command, by its suspend field, or by commands to its Jobs.

    Raises:
        BadWork: jobs of this kind do not know the action.
        NotFound: there is no such job.
    """
    job_kind = job_kind_of(kind)
    if job_kind is None:
        raise BadWork(f"a {kind.kind} is no job that could be stopped.")
    live = await client.get(kind, name, namespace)
    if job_kind.control == "commands":
        await client.create(COMMANDS, job_command(live, action))
    elif job_kind.control == "parts" and action == "TerminateJob":
        for part in (await dependents(client, kind.resource, live)).parts:
            if not part.metadata.deletion_timestamp and not has_ended(part):
                await client.create(COMMANDS, job_command(part, action))
    else:
        patch = suspend_patch(job_kind, action != "ResumeJob")
        await client.patch(kind, name, patch, namespace=namespace)


async def resize(client: Client, kind: Kind[Any], namespace: str, name: str, task: str, replicas: int) -> None:
    """Change how many pods a task has.

    Raises:
        BadWork: the job has no such task, or jobs of its kind keep their size.
        Invalid: the job cannot have that size.
    """
    definition = job_kind(kind)
    if job_kind_of(kind) is None or definition is None:
        raise BadWork(f"a {kind.kind} is no job whose size could change.")
    if definition.sized is not None:
        kind, path = definition.sized
        live = await client.get(definition.kind, name, namespace)
        chosen = first(live, path)
        if not chosen:
            raise BadWork(f"the {definition.kind.kind} {name} has made no {kind.kind} yet: wait until it is running.")
        name, definition = chosen, job_kind(kind) or definition
    for attempt in range(SCALE_ATTEMPTS):
        patch = size_patch(definition, await client.get(kind, name, namespace), task, replicas)
        try:
            how: PatchType = "json" if isinstance(patch, list) else "merge"
            await client.patch(kind, name, patch, namespace=namespace, patch_type=how)
        except Conflict:
            if attempt == SCALE_ATTEMPTS - 1:
                raise
        else:
            return
