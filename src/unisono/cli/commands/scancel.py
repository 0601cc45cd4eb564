"""``unisono scancel``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, where_options


@click.command("scancel")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@where_options
def command(where: Where, jobs: tuple[str, ...]) -> None:
    """Stop jobs for good, as Slurm's scancel does; their logs stay until 'unisono delete job/NAME'."""
    from unisono.cli.connection import run_async

    run_async(_scancel(where, jobs))


async def _scancel(where: Where, jobs: tuple[str, ...]) -> None:
    from unisono.api.kinds import JOBS
    from unisono.cli.connection import connect, namespace_of
    from unisono.sdk.control import send_action

    async with connect(where) as client:
        for job in jobs:
            name = job.removeprefix("job/")
            await send_action(client, JOBS, namespace_of(where), name, "TerminateJob")
            click.echo(f"job/{name} is being stopped")
