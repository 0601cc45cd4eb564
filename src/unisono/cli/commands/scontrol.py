"""``unisono scontrol``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import Where, run_async, where_options
from unisono.cli.slurm.selecting import selection_options

if TYPE_CHECKING:
    from unisono.api.groups.batch import Job
    from unisono.api.groups.quota import FloatingResource
    from unisono.sdk.jobs.control import JobAction

_ACTIONS: dict[str, tuple[JobAction, str]] = {
    "hold": ("AbortJob", "is held"),
    "suspend": ("AbortJob", "is held"),
    "release": ("ResumeJob", "is released"),
    "resume": ("ResumeJob", "is released"),
    "requeue": ("RestartJob", "is started again"),
}
_SHOWN = (
    *("job", "jobs", "node", "nodes", "partition", "partitions", "reservation", "reservations"),
    *("hostname", "hostnames", "hostlist", "license", "licenses"),
)
_RESERVING = ("create", "delete")
_INSTEAD = {
    "ping": "'unisono status' says which components are alive",
    "reconfigure": "the scheduler reads a changed configuration by itself: 'unisono config check'",
    "wait_job": "a job's script runs once its nodes are there",
    "top": "a job's place in its queue is that of its PriorityClass",
    "notify": "'unisono logs' shows what a job writes; nothing is sent to it",
    "cancel": "'unisono scancel NAME' stops a job",
    "write": "'unisono config show' prints the configuration",
    "config": "'unisono config show' prints the configuration",
    "step": "'unisono get pods -l volcano.sh/job-name=NAME' lists what a job runs",
    "topology": "'unisono get hypernodes' lists the domains of the network",
    "assoc_mgr": "'unisono queue list' lists what queues use and may use",
    "daemons": "'unisono status' says which components are alive",
}
"""Verbs and objects of Slurm's that are not here, and what stands for them."""


@click.command("scontrol")
@click.argument("verb")
@click.argument("words", nargs=-1)
@where_options
def command(where: Where, verb: str, words: tuple[str, ...]) -> None:
    """Show jobs and nodes, hold, release, requeue and update jobs, reserve nodes, as Slurm's scontrol does.

    Jobs are named by their name or by the number that SLURM_JOB_ID has: hold NAME, show job NAME, show node NODE, show
    hostnames LIST, update JobId=NAME Partition=QUEUE, create reservation ReservationName=NAME StartTime=TIME
    Duration=TIME Nodes=LIST Users=NAMES, delete ReservationName=NAME.
    """
    if verb not in (*_ACTIONS, *_RESERVING, "show", "update"):
        verbs = ", ".join((*_ACTIONS, *_RESERVING, "show", "update"))
        raise click.UsageError(f"scontrol {verb}: {_INSTEAD.get(verb, f'there are {verbs}')}.")
    if not words:
        raise click.UsageError(
            f"scontrol {verb} what? Name a job, or 'show job', 'show node' or 'show hostnames LIST'."
        )
    if verb in _RESERVING:
        run_async(_reserve(where, verb, words))
        return
    if verb != "show":
        run_async(_update(where, words) if verb == "update" else _act(where, verb, words))
        return
    if words[0] not in _SHOWN:
        why = _INSTEAD.get(words[0].removesuffix("s"), _INSTEAD.get(words[0], f"there are {', '.join(_SHOWN)}"))
        raise click.UsageError(f"scontrol show {words[0]}: {why}.")
    if words[0].startswith("host"):
        from unisono.cli.slurm.steps.words import hosts_of

        hosts = hosts_of(",".join(words[1:]))
        click.echo(",".join(hosts) if words[0] == "hostlist" else "\n".join(hosts))
        return
    run_async(_show(where, words[0].removesuffix("s"), words[1:]))


async def _reserve(where: Where, verb: str, words: tuple[str, ...]) -> None:
    """``create reservation Name=value...``, and ``delete ReservationName=NAME`` or ``delete reservation NAME``."""
    import time

    from unisono.api.kinds import RESERVATIONS
    from unisono.cli.connection import connect
    from unisono.cli.slurm.reserving import reservation_of, words_of
    from unisono.cli.slurm.script import BadScript

    given = words[1:] if words[0].lower() == "reservation" else words
    if verb == "delete" and len(given) == 1 and "=" not in given[0]:
        given = (f"ReservationName={given[0]}",)
    try:
        if verb == "create":
            made, notes = reservation_of(given, time.time())
        else:
            name = words_of(given).get("name", "").lower().replace("_", "-")
    except BadScript as error:
        raise click.UsageError(f"scontrol {verb}: {error}") from None
    async with connect(where) as client:
        if verb == "create":
            for note in notes:
                click.echo(f"scontrol: {note}.", err=True)
            await client.create(RESERVATIONS, made)
            click.echo(f"Reservation created: {made.metadata.name}")
        else:
            await client.delete(RESERVATIONS, name)
            click.echo(f"reservation/{name} is deleted")


async def _act(where: Where, verb: str, words: tuple[str, ...]) -> None:
    from unisono.api.conditions import ENDED
    from unisono.api.kinds import JOBS
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.slurm.selecting import jobs_called, names_of
    from unisono.sdk.jobs.control import send_action

    action, outcome = _ACTIONS[verb]
    async with connect(where) as client:
        for name in sorted(names_of(words)):
            for job in await jobs_called(client, namespace_of(where), name):
                phase = (job.status.state.phase if job.status.state else None) or "Pending"
                if action == "AbortJob" and phase in ENDED - {"Aborted"}:
                    click.echo(f"job/{job.metadata.name} has ended ({phase}): there is nothing to hold", err=True)
                    continue
                await send_action(client, JOBS, job.metadata.namespace or "default", job.metadata.name, action)
                click.echo(f"job/{job.metadata.name} {outcome}")


async def _update(where: Where, words: tuple[str, ...]) -> None:
    from unisono.api.kinds import JOBS
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.slurm.selecting import jobs_called

    given = {name.lower(): value for name, _, value in (word.partition("=") for word in words)}
    queue, name = given.get("partition", ""), given.get("jobid") or given.get("job") or given.get("jobname", "")
    others = sorted(given.keys() - {"partition", "jobid", "job", "jobname"})
    if others or not queue or not name:
        wrong = f"{others[0]} of a job that exists is not changed here; " if others else ""
        raise click.UsageError(f"{wrong}scontrol update JobId=NAME Partition=QUEUE moves a job to another queue.")
    async with connect(where) as client:
        for job in await jobs_called(client, namespace_of(where), name):
            await client.patch(JOBS, job.metadata.name, {"spec": {"queue": queue}}, namespace=job.metadata.namespace)
            click.echo(f"job/{job.metadata.name} is in queue {queue}")


async def _show(where: Where, what: str, names: tuple[str, ...]) -> None:
    from unisono.api.kinds import FLOATING_RESOURCES, JOBS, RESERVATIONS
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.slurm.reserving import fields_of
    from unisono.cli.slurm.selecting import jobs_called, of_names
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        namespace = namespace_of(where)
        if what == "reservation":
            for reservation in (await client.list(RESERVATIONS)).items:
                if not names or reservation.metadata.name in names:
                    _print(fields_of(reservation))
            return
        seen = await read_overview(client, namespace)
        if what == "node":
            for node in of_names(seen.nodes, names, what):
                amounts = {"State": node.state, "CPUs": node.cpus, "Memory": node.memory, "Gres": node.devices}
                _print({"NodeName": node.name, **amounts})
            return
        if what == "partition":
            for queue in of_names(seen.queues, names, what):
                waiting = queue.groups.get("Pending", 0) + queue.groups.get("Inqueue", 0)
                counts = {"Waiting": waiting, "Running": queue.groups.get("Running", 0)}
                state = "UP" if queue.state == "Open" else queue.state.upper()
                _print({"PartitionName": queue.name, "State": state, "Parent": queue.parent or "None", **counts})
            return
        if what == "license":
            for each in (await client.list(FLOATING_RESOURCES)).items:
                if not names or each.metadata.name in names:
                    _print(license_fields(each))
            return
        jobs = [job for name in names for job in await jobs_called(client, namespace, name)]
        nodes = {job.name: job.nodes for job in seen.running if job.namespace == namespace}
        reasons = {job.name: job.waiting for job in seen.waiting if job.namespace == namespace}
        for job in jobs or (() if names else (await client.list(JOBS, namespace)).items):
            _print(_fields(job, nodes.get(job.metadata.name, ()), reasons.get(job.metadata.name, "")))


def license_fields(floating: FloatingResource) -> dict[str, object]:
    """As Slurm prints them; what is held outside of this cluster counts as used."""
    from unisono.api.licenses import known_amounts

    total, elsewhere, _ = known_amounts(floating)
    used = (floating.status.in_use or 0) + elsewhere
    amounts = {"Total": total, "Used": used, "Free": max(total - used, 0), "Reserved": 0}
    return {
        "LicenseName": floating.metadata.name,
        **amounts,
        "Remote": "yes" if floating.spec.source is not None else "no",
    }


def _fields(job: Job, nodes: Any, reason: str) -> dict[str, object]:
    from unisono.cli.slurm.batches import BASE_NAME, JOB_ID

    labels, state = job.metadata.labels or {}, job.status.state
    phase = (state.phase if state else None) or "Pending"
    states = {"Completed": "COMPLETED", "Running": "RUNNING", "Failed": "FAILED", "Pending": "PENDING"}
    return {
        "JobId": labels.get(JOB_ID, job.metadata.name),
        "JobName": labels.get(BASE_NAME, job.metadata.name),
        "Name": job.metadata.name,
        "JobState": states.get(phase, "CANCELLED" if phase in ("Terminated", "Aborted") else phase.upper()),
        "Reason": reason or "None",
        "Partition": job.spec.queue or "default",
        "NumNodes": sum(task.replicas or 0 for task in job.spec.tasks or ()),
        "Restarts": job.status.retry_count or 0,
        "SubmitTime": job.metadata.creation_timestamp or "Unknown",
        "NodeList": ",".join(nodes),
    }


def _print(fields: dict[str, object]) -> None:
    click.echo(" ".join(f"{name}={value}" for name, value in fields.items()))


# ``unisono scancel``.


@click.command("scancel")
@click.argument("jobs", nargs=-1, metavar="[JOB...]")
@selection_options
@where_options
def scancel_command(where: Where, jobs: tuple[str, ...], **asked: Any) -> None:
    """Stop jobs for good, as Slurm's scancel does. The logs of processes that still ran go with their pods.

    The name of an array stops all its elements. Without JOB the options say which ones, such as --me.
    """
    if not jobs and not any(asked.values()):
        raise click.UsageError("which jobs? Name them, or give --me, --user, --partition, --states or --name.")
    run_async(_scancel(where, jobs, asked))


async def _scancel(where: Where, jobs: tuple[str, ...], asked: dict[str, Any]) -> None:
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.slurm.selecting import is_called, names_of, selection
    from unisono.errors import NotFound
    from unisono.sdk.errors import BadWork
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        if not any(asked.values()):
            # A job that has not been seen by the scheduler is in no overview.
            await _stop_named(client, namespace_of(where), sorted(names_of(jobs)))
            return
        criteria = await selection(client, where, **asked)
        namespace = namespace_of(where)
        matches = [job for _, job in criteria.of(await read_overview(client, namespace)) if job.namespace == namespace]
        named = names_of(jobs)
        matches = [job for job in matches if not named or any(is_called(job.name, name) for name in named)]
        if not matches:
            click.echo("No job is like that.", err=True)
        for job in matches:
            try:
                await _stop(client, namespace, job.title)
            except (BadWork, NotFound) as error:
                click.echo(f"{job.title} is left: {error}", err=True)


async def _stop_named(client: Any, namespace: str, names: list[str]) -> None:
    """Stop the jobs of these names or numbers, or the elements of an array that has the name.

    Raises:
        NotFound: there is neither.
    """
    from unisono.api.conditions import ENDED
    from unisono.cli.slurm.selecting import jobs_called

    for name in names:
        matches = await jobs_called(client, namespace, name)
        for job in matches:
            if len(matches) == 1 or job.status.state is None or job.status.state.phase not in ENDED:
                await _stop(client, namespace, f"job/{job.metadata.name}")


async def _stop(client: Any, namespace: str, title: str) -> None:
    from unisono.sdk.jobs.control import named, send_action

    word, _, name = title.partition("/")
    await send_action(client, named(word), namespace, name, "TerminateJob")
    click.echo(f"{title} is being stopped")
