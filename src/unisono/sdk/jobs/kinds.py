"""What can be asked of each kind of job: how it is suspended, cancelled and changed in size (pure)."""

from __future__ import annotations

from typing import Any

from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS
from unisono.jobkinds.kind import JobKind, NoSuchField, Patch
from unisono.jobkinds.registry import JOB_KINDS, job_kind
from unisono.sdk.errors import BadWork

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
