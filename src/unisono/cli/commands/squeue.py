"""``unisono squeue``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, output_option, where_options


@click.command("squeue")
@click.option("-p", "--partition", default="", help="Only jobs of this queue.")
@output_option("text", "json")
@where_options
def command(where: Where, partition: str, output: str) -> None:
    """List jobs that run (R) and wait (PD) with the reason, as Slurm's squeue does; see also 'unisono status'."""
    from unisono.cli.connection import run_async

    run_async(_squeue(where, partition, output))


async def _squeue(where: Where, partition: str, output: str) -> None:
    import shutil
    import sys
    from dataclasses import asdict

    from unisono.cli.connection import connect
    from unisono.cli.printing import print_json
    from unisono.cli.slurm.tables import squeue_lines
    from unisono.sdk.overview_source import read_overview

    async with connect(where) as client:
        found = await read_overview(client)
    if output == "json":
        jobs = (("running", found.running), ("waiting", found.waiting))
        print_json({name: [asdict(job) for job in each if partition in ("", job.queue)] for name, each in jobs})
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in squeue_lines(found, queue=partition, namespace=where.namespace or "", width=width):
        click.echo(line)
