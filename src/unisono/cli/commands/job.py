"""``unisono job``: jobs with ``vcctl``'s verbs and flags."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, NoReturn

import click

from unisono.api.kinds import JOBS
from unisono.cli import vcctl
from unisono.cli.options import Where
from unisono.errors import ApiError, NotFound, UnisonoError

if TYPE_CHECKING:
    from unisono.api.groups.batch import Job
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient
    from unisono.sdk.jobs.control import JobAction


# What ``unisono job`` does.


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

    documents = read([filename]) if filename else [Manifest(job or {}, "command line", 1, Path.cwd())]
    if len(documents) != 1 or documents[0].kind != "Job":
        kinds = ", ".join(manifest.kind for manifest in documents)
        raise UnisonoError(f"{filename} must hold exactly one Job, and holds {kinds}: use 'unisono apply' for more.")
    if where.namespace:
        documents[0].metadata["namespace"] = where.namespace
    async with vcctl.connected(where) as (client, namespace):
        created = await post(client, await discover(client), documents[0], namespace)
    click.echo(f"run job {created.name} successfully")


async def show_list(where: Where, everywhere: bool, output: str, *, queue: str, scheduler: str, selector: str) -> None:
    """Print the jobs that match."""
    from unisono.api.decode import decode
    from unisono.api.kinds import JOBS
    from unisono.cli.vcctl import job_lines

    async with vcctl.connected(where) as (client, namespace):
        jobs = await vcctl.items(client, JOBS, None if everywhere else namespace)
        chosen = [
            value
            for value in jobs
            if (not queue or value["spec"].get("queue", "default") == queue)
            and (not scheduler or value["spec"].get("schedulerName", "volcano") == scheduler)
            and selector in value["metadata"]["name"]
        ]
        if output == "text" and not chosen:
            await vcctl.say_nothing_found(client, queue)
            return
    vcctl.show(output, chosen, job_lines((decode(JOBS, value).obj for value in chosen), namespaces=everywhere))


async def show_one(where: Where, name: str, output: str) -> None:
    """Print one job, for people as ``unisono describe`` does."""
    from unisono.cli.describing import describe

    kind, name = target(name)
    try:
        if output == "text":
            await describe(where, (f"{kind.resource}/{name}",))
            return
        async with vcctl.connected(where) as (client, namespace):
            vcctl.show(output, await vcctl.item(client, kind, namespace, name), [])
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
    from unisono.sdk.jobs.control import job_command, job_kind_of, suspend_patch

    kind, name = target(name)
    try:
        async with vcctl.connected(where) as (client, namespace):
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
        async with vcctl.connected(where) as (client, namespace):
            await client.delete(kind, name, namespace, propagation="Background")
    except NotFound as error:
        await _otherwise(where, kind, name, "delete", error)


async def _otherwise(where: Where, kind: Kind[Any], name: str, verb: str, error: NotFound) -> None:
    """Say where else a job of that name is."""
    from unisono.api.kinds import JOBS

    if kind.resource != JOBS.resource:
        raise error
    async with vcctl.connected(where) as (client, namespace):
        await tell_others(client, namespace, name, f"unisono job {verb}", error)


def target(text: str) -> tuple[Kind[Any], str]:
    """Kind and name of what a user typed.

    Raises:
        BadWork: there is no such kind of job.
    """
    from unisono.api.kinds import JOBS
    from unisono.sdk.jobs.control import named

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

    alternatives = []
    for kind in JOB_KINDS:
        if kind.resource == JOBS.resource:
            continue
        try:
            await client.get(kind, name, namespace)
        except ApiError:
            # Not there, not installed, or not for this user: in each case nothing to point at.
            continue
        alternatives.append(f"'{words} {kind.singular_name if kind.group != 'batch' else 'job.batch'}/{name}'")
    if not alternatives:
        raise error
    raise NotFound(
        f"{error.message}; there are jobs of that name of other kinds: {' or '.join(alternatives)}"
    ) from None


DEFAULT_AMOUNTS = "cpu=1000m,memory=100Mi"


@click.group("job")
def command() -> None:
    """Run, list, view, suspend, resume and delete jobs, as vcctl does; KIND/NAME means a job of another kind."""


@command.command("run")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("-N", "--name", help="Name of the job.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of the container.")
@click.option("-c", "--command", "line", help="What the container runs; or give it after --.")
@click.option("-r", "--replicas", type=click.IntRange(1), default=1, show_default=True, help="Number of pods.")
@click.option("-m", "--min", "minimum", type=click.IntRange(1), help="Pods that start together.  [default: 1]")
@click.option("-R", "--requests", default=DEFAULT_AMOUNTS, show_default=True, callback=vcctl.amounts, help="Per pod.")
@click.option("-L", "--limits", default=DEFAULT_AMOUNTS, show_default=True, callback=vcctl.amounts, help="Per pod.")
@click.option("-S", "--scheduler", default="volcano", show_default=True, help="Scheduler of the pods.")
@click.option("-q", "--queue", help="Queue of the job.  [default: default]")
@click.option("-f", "--filename", help="A YAML or JSON file with the job, instead of all these.")
@vcctl.namespace_option
@vcctl.cluster_options
async def run(where: Where, filename: str | None, name: str | None, **options: Any) -> None:
    """Create a job of equal pods, or that of a file; returns at once ('unisono run FILE' follows a job to its end)."""
    if bool(filename) == bool(name):
        raise click.UsageError("job name cannot be left blank: give --name NAME, or a file with --filename.")
    line, words = options.pop("line"), options.pop("words")
    if line and words:
        raise click.UsageError("--command and the words after -- both say what to run; give one of them.")
    job = flag_job(name, command=tuple(words) or tuple(shlex.split(line or "")), **options) if name else None
    await create(where, filename, job)


@command.command("list")
@click.option("-q", "--queue", default="", help="Only jobs of this queue.")
@click.option("-S", "--scheduler", default="", help="Only jobs of this scheduler.")
@click.option("--selector", default="", help="Only jobs whose name contains this text.")
@vcctl.everywhere_option
@vcctl.print_option("text", "json", "yaml")
@vcctl.namespace_option
@vcctl.cluster_options
async def list_(where: Where, all_namespaces: bool, output: str, **wanted: str) -> None:
    """List Volcano's Jobs with their phase and the number of their pods by state ('unisono get' lists other kinds)."""
    await show_list(where, all_namespaces, output, **wanted)


@command.command("view")
@vcctl.name_option("-N", "job")
@vcctl.print_option("text", "json", "yaml")
@vcctl.namespace_option
@vcctl.cluster_options
async def view(where: Where, name: str, output: str) -> None:
    """Show a job: spec, status, why it waits, and its events."""
    await show_one(where, name, output)


@command.command("suspend")
@vcctl.name_option("-N", "job")
@vcctl.namespace_option
@vcctl.cluster_options
async def suspend(where: Where, name: str) -> None:
    """Stop a job's pods and give their resources back, until it is resumed."""
    await order(where, name, "AbortJob")
    click.echo(f"suspend job {name} successfully")


@command.command("resume")
@vcctl.name_option("-N", "job")
@vcctl.namespace_option
@vcctl.cluster_options
async def resume(where: Where, name: str) -> None:
    """Start a suspended job again."""
    await order(where, name, "ResumeJob")
    click.echo(f"resume job {name} successfully")


@command.command("delete")
@vcctl.name_option("-N", "job")
@vcctl.namespace_option
@vcctl.cluster_options
async def delete(where: Where, name: str) -> None:
    """Delete a job with its pods."""
    await remove(where, name)
    click.echo(f"delete job {name} successfully")
