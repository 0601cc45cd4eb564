"""What ``unisono job`` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from unisono.api.kinds import JOBS
from unisono.cli.vcctl.serving import connected, item, items, say_nothing_found, show
from unisono.errors import ApiError, NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.api.groups.batch import Job
    from unisono.api.kind import Kind
    from unisono.cli.options import Where
    from unisono.kube.http import HttpClient
    from unisono.sdk.jobs.control import JobAction


def flag_job(
    name: str,
    *,
    image: str,
    command: tuple[str, ...],
    replicas: int,
    minimum: int | None,
    requests: dict[str, str],
    limits: dict[str, str],
    scheduler: str,
    queue: str | None,
) -> dict[str, Any]:
    """The job that the flags of ``job run`` describe: one task, whose container is named like the job."""
    container: dict[str, Any] = {"name": name, "image": image, "imagePullPolicy": "IfNotPresent"}
    if command:
        container["command"] = list(command)
    container["resources"] = {"limits": limits, "requests": requests}
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec: dict[str, Any] = {"schedulerName": scheduler, "minAvailable": minimum or 1}
    if queue:
        spec["queue"] = queue
    spec["tasks"] = [{"replicas": replicas, "template": template}]
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name}, "spec": spec}


async def create(where: Where, filename: str | None, job: dict[str, Any] | None) -> None:
    """Create the job of a file, in the file's namespace or that of the flag, or the one of the flags.

    Raises:
        UnisonoError: the file holds another kind, or more than one object.

    """
    from pathlib import Path

    from unisono.cli.applying import create as post
    from unisono.cli.manifests import Manifest, read
    from unisono.kube.discovery import discover

    found = read([filename]) if filename else [Manifest(job or {}, "command line", 1, Path.cwd())]
    if len(found) != 1 or found[0].kind != "Job":
        kinds = ", ".join(manifest.kind for manifest in found)
        raise UnisonoError(f"{filename} must hold exactly one Job, and holds {kinds}: use 'unisono apply' for more.")
    if where.namespace:
        found[0].metadata["namespace"] = where.namespace
    async with connected(where) as (client, namespace):
        created = await post(client, await discover(client), found[0], namespace)
    click.echo(f"run job {created.name} successfully")


async def show_list(where: Where, everywhere: bool, output: str, *, queue: str, scheduler: str, selector: str) -> None:
    """Print the jobs that match."""
    from unisono.api.decode import decode
    from unisono.api.kinds import JOBS
    from unisono.cli.vcctl.serving import job_lines

    async with connected(where) as (client, namespace):
        found = await items(client, JOBS, None if everywhere else namespace)
        chosen = [
            value
            for value in found
            if (not queue or value["spec"].get("queue", "default") == queue)
            and (not scheduler or value["spec"].get("schedulerName", "volcano") == scheduler)
            and selector in value["metadata"]["name"]
        ]
        if output == "text" and not chosen:
            await say_nothing_found(client, queue)
            return
    show(output, chosen, job_lines((decode(JOBS, value).obj for value in chosen), namespaces=everywhere))


async def show_one(where: Where, name: str, output: str) -> None:
    """Print one job, for people as ``unisono describe`` does."""
    from unisono.cli.describing import describe

    kind, name = target(name)
    try:
        if output == "text":
            await describe(where, (f"{kind.resource}/{name}",))
            return
        async with connected(where) as (client, namespace):
            show(output, await item(client, kind, namespace, name), [])
    except NotFound as error:
        await _otherwise(where, kind, name, "view", error)


async def order(where: Where, name: str, action: JobAction) -> None:
    """Send a Command to a Volcano Job, as ``vcctl`` does; other jobs have a switch in their spec.

    Raises:
        NotFound: there is no such job.
        BadWork: jobs of its kind cannot be suspended, or there is no such kind.
        UnisonoError: the Volcano Job has ended, and no command changes it any more.

    """
    from unisono.api.kinds import COMMANDS, JOBS
    from unisono.sdk.jobs.control import job_command
    from unisono.sdk.jobs.kinds import job_kind_of, suspend_patch

    kind, name = target(name)
    try:
        async with connected(where) as (client, namespace):
            if kind.resource == JOBS.resource:
                job = await client.get(JOBS, name, namespace)
                _refuse_ended(job)
                await client.create(COMMANDS, job_command(job, action))
                return
            job_kind = job_kind_of(kind)
            assert job_kind is not None
            await client.patch(kind, name, suspend_patch(job_kind, action == "AbortJob"), namespace=namespace)
    except NotFound as error:
        await _otherwise(where, kind, name, "suspend" if action == "AbortJob" else "resume", error)


def _refuse_ended(job: Job) -> None:
    phase = job.status.state.phase if job.status.state else None
    if phase in ("Completed", "Failed", "Terminated"):
        name = job.metadata.name
        raise UnisonoError(
            f"the job {name} has ended ({phase}), and can be neither suspended nor resumed: to run it again, delete it "
            f"with 'unisono job delete {name}' and create it again."
        )


async def remove(where: Where, name: str) -> None:
    """Delete a job; its pods follow.

    Raises:
        NotFound: there is no such job.

    """
    kind, name = target(name)
    try:
        async with connected(where) as (client, namespace):
            await client.delete(kind, name, namespace, propagation="Background")
    except NotFound as error:
        await _otherwise(where, kind, name, "delete", error)


async def _otherwise(where: Where, kind: Kind[Any], name: str, verb: str, error: NotFound) -> None:
    """Say where else a job of that name is."""
    from unisono.api.kinds import JOBS

    if kind.resource != JOBS.resource:
        raise error
    async with connected(where) as (client, namespace):
        await tell_others(client, namespace, name, f"unisono job {verb}", error)


def target(text: str) -> tuple[Kind[Any], str]:
    """Kind and name of what a user typed.

    Raises:
        BadWork: there is no such kind of job.

    """
    from unisono.api.kinds import JOBS
    from unisono.sdk.jobs.kinds import named

    kind, slash, name = text.partition("/")
    return (named(kind), name) if slash else (JOBS, text)


async def tell_others(client: HttpClient, namespace: str, name: str, words: str, error: NotFound) -> NoReturn:
    """There is no Volcano Job of that name: name the jobs of other kinds that have it, and how to mean them.

    Args:
        client: the server.
        namespace: where to look.
        name: of the job that was not found.
        words: the command, such as ``unisono job suspend``.
        error: what to raise where there is none.

    Raises:
        NotFound: always.

    """
    from unisono.api.kinds import JOBS
    from unisono.jobkinds.registry import JOB_KINDS

    found = []
    for kind in JOB_KINDS:
        if kind.resource == JOBS.resource:
            continue
        try:
            await client.get(kind, name, namespace)
        except ApiError:
            # Not there, not installed, or not for this user: in each case nothing to point at.
            continue
        found.append(f"'{words} {kind.singular_name if kind.group != 'batch' else 'job.batch'}/{name}'")
    if not found:
        raise error
    raise NotFound(f"{error.message}; there are jobs of that name of other kinds: {' or '.join(found)}") from None
