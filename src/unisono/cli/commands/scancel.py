"""``unisono scancel``."""

from __future__ import annotations

from typing import Any

import click

from unisono.cli.options import Where, where_options
from unisono.cli.slurm.selecting import selection_options


@click.command("scancel")
@click.argument("jobs", nargs=-1, metavar="[JOB...]")
@selection_options
@where_options
def command(where: Where, jobs: tuple[str, ...], **asked: Any) -> None:
    """Stop jobs for good, as Slurm's scancel does. The logs of processes that still ran go with their pods.

    The name of an array stops all its elements. Without JOB the options say which ones, such as --me.
    """
    from unisono.cli.connection import run_async

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
        wanted = await selection(client, where, **asked)
        namespace = namespace_of(where)
        found = [job for _, job in wanted.of(await read_overview(client, namespace)) if job.namespace == namespace]
        named = names_of(jobs)
        found = [job for job in found if not named or any(is_called(job.name, name) for name in named)]
        if not found:
            click.echo("No job is like that.", err=True)
        for job in found:
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
        found = await jobs_called(client, namespace, name)
        for job in found:
            if len(found) == 1 or job.status.state is None or job.status.state.phase not in ENDED:
                await _stop(client, namespace, f"job/{job.metadata.name}")


async def _stop(client: Any, namespace: str, title: str) -> None:
    from unisono.sdk.jobs.control import named, send_action

    word, _, name = title.partition("/")
    await send_action(client, named(word), namespace, name, "TerminateJob")
    click.echo(f"{title} is being stopped")
