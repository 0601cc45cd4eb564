"""What can be asked of each kind of job: how it is suspended, cancelled and changed in size (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.paths import first, patch_of
from unisono.jobkinds.registry import JOB_KINDS, job_kind
from unisono.sdk.errors import BadWork

Json = dict[str, Any]

# A batch Job has one kind of pods, and no name for it.
POD_TASK = "pod"


def job_kind_of(kind: Kind[Any]) -> JobKind | None:
    """What can be done with jobs of a kind; None where it is no job."""
    found = job_kind(kind)
    return found if found is not None and found.ends else None


def is_job(api_version: str, kind: str) -> bool:
    """Whether a manifest's apiVersion and kind are those of a job, in whatever version."""
    return any(each.matches(api_version, kind) for each in JOB_KINDS)


def named(name: str) -> Kind[Any]:
    """The kind of job that a user means by ``PyTorchJob``, ``pytorchjob``, ``pytorchjobs`` or ``jobs.batch``.

    Raises:
        BadWork: there is none; names those that there are.

    """
    wanted = name.lower()
    for each in JOB_KINDS:
        names = (
            each.kind.lower(),
            each.plural,
            each.singular_name,
            each.resource,
            f"{each.singular_name}.{each.group}",
        )
        if wanted in (*names, *each.short_names):
            return each
    known = ", ".join(dict.fromkeys(each.kind if each is not BATCH_JOBS else "job.batch" for each in JOB_KINDS))
    raise BadWork(f"{name!r} is no kind of job: give one of {known}.")


def suspend_patch(job_kind: JobKind, value: bool) -> Json:
    """The merge patch that suspends a job, or lets it go on.

    Raises:
        BadWork: its kind cannot be suspended.

    """
    if job_kind.control != "flag":
        raise BadWork(f"a {job_kind.kind.kind} cannot be suspended as a whole: suspend the jobs that it is made of.")
    return patch_of(job_kind.flag, value)


def size_patch(job_kind: JobKind, job: Any, task: str, replicas: int) -> Json:
    """The merge patch after which a part of the job has so many pods.

    Args:
        job_kind: of the job.
        job: as the server has it.
        task: a role of a Kubeflow job (``Worker``, in any case), or ``pod`` of a batch Job.
        replicas: number of pods.

    Raises:
        BadWork: there is no such part, the number is negative, or jobs of this kind keep their size.

    """
    _check_size(task, replicas)
    name, (roles, each, field) = job.metadata.name, job_kind.replicas.partition(".*.")
    if each:
        role = _find(name, task, list(first(job, roles) or {}))
        return patch_of(f"{roles}.{role}.{field}", replicas)
    if not roles:
        raise BadWork(f"a {job_kind.kind.kind} keeps the size that it was made with: submit a new one.")
    _find(name, task, [POD_TASK])
    size = patch_of(roles, replicas)
    indexed = job_kind.kind is BATCH_JOBS and job.spec.completion_mode == "Indexed"
    if indexed and job.spec.completions == job.spec.parallelism:
        size["spec"]["completions"] = replicas
    return size


def worker_group_patch(cluster: Any, task: str, replicas: int) -> list[Json]:
    """The JSON patch that changes the size of a worker group of a RayCluster, within its limits.

    Raises:
        BadWork: there is no such group, or its limits do not allow the number.

    """
    _check_size(task, replicas)
    groups = cluster.spec.worker_group_specs or []
    name = _find(cluster.metadata.name, task, [group.group_name for group in groups])
    index = next(number for number, group in enumerate(groups) if group.group_name == name)
    low, high = groups[index].min_replicas or 0, groups[index].max_replicas
    if replicas < low or (high is not None and replicas > high):
        limits = f"{low} to {high}" if high is not None else f"{low} or more"
        raise BadWork(f"worker group {name} may have {limits} replicas, and not {replicas}.")
    return [
        {"op": "test", "path": f"/spec/workerGroupSpecs/{index}/groupName", "value": name},
        {"op": "add", "path": f"/spec/workerGroupSpecs/{index}/replicas", "value": replicas},
    ]


def _check_size(task: str, replicas: int) -> None:
    if replicas < 0:
        raise BadWork(f"replicas of task {task} must be 0 or more, and not {replicas}.")


def _find(job: str, task: str, names: Sequence[str]) -> str:
    for name in names:
        if name.lower() == task.lower():
            return name
    raise BadWork(f"the job {job} has no task {task!r}: its tasks are {', '.join(names)}.")
