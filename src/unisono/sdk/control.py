"""Stops, resumes and resizes jobs of any kind on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unisono.api.job_state import ENDED
from unisono.api.kind_families import RAY_CLUSTERS, RAY_JOBS
from unisono.api.kinds import COMMANDS, JOBS
from unisono.errors import Conflict
from unisono.sdk import commands
from unisono.sdk.dependents import dependents
from unisono.sdk.errors import BadWork
from unisono.sdk.job_kinds import job_kind_of, size_patch, suspend_patch, worker_group_patch

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.client import Client

SCALE_ATTEMPTS = 10


async def send_action(client: Client, kind: Kind[Any], namespace: str, name: str, action: commands.JobAction) -> None:
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
        await client.create(COMMANDS, commands.job_command(live, action))
    elif job_kind.control == "parts" and action == "TerminateJob":
        for part in (await dependents(client, kind.resource, live)).parts:
            if not part.metadata.deletion_timestamp and (part.status.state.phase or "") not in ENDED:
                await client.create(COMMANDS, commands.job_command(part, action))
    else:
        patch = suspend_patch(job_kind, action != "ResumeJob")
        await client.patch(kind, name, patch, namespace=namespace)


async def resize(client: Client, kind: Kind[Any], namespace: str, name: str, task: str, replicas: int) -> None:
    """Change how many pods a task has.

    Raises:
        BadWork: the job has no such task, or jobs of its kind keep their size.
        Invalid: the job cannot have that size.

    """
    if kind.resource == JOBS.resource:
        await _resize_volcano_job(client, namespace, name, task, replicas)
        return
    live = await client.get(kind, name, namespace)
    job_kind = job_kind_of(kind)
    if job_kind is None:
        raise BadWork(f"a {kind.kind} is no job whose size could change.")
    if kind.resource != RAY_JOBS.resource:
        await client.patch(kind, name, size_patch(job_kind, live, task, replicas), namespace=namespace)
        return
    chosen = live.status.ray_cluster_name
    if not chosen:
        raise BadWork(f"the RayJob {name} has no cluster yet: wait until it is running.")
    cluster = await client.get(RAY_CLUSTERS, chosen, namespace)
    patch = worker_group_patch(cluster, task, replicas)
    await client.patch(RAY_CLUSTERS, chosen, patch, namespace=namespace, patch_type="json")


async def _resize_volcano_job(client: Client, namespace: str, name: str, task: str, replicas: int) -> None:
    for attempt in range(SCALE_ATTEMPTS):
        live = await client.get(JOBS, name, namespace)
        patch = commands.scale_patch(live, task, replicas)
        try:
            await client.patch(JOBS, name, patch, namespace=namespace, patch_type="json")
        except Conflict:
            if attempt == SCALE_ATTEMPTS - 1:
                raise
        else:
            return
