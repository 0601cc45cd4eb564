"""``unisono sinfo``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, output_option, where_options


@click.command("sinfo")
@output_option("text", "json")
@where_options
def command(where: Where, output: str) -> None:
    """List nodes with their state and what is in use, as Slurm's sinfo does; see also 'unisono status'."""
    from unisono.cli.connection import run_async

    run_async(_sinfo(where, output))


async def _sinfo(where: Where, output: str) -> None:
    from dataclasses import asdict

    from unisono.cli.connection import connect
    from unisono.cli.printing import print_json
    from unisono.cli.slurm.tables import sinfo_lines
    from unisono.sdk.overview_source import read_overview

    async with connect(where) as client:
        found = await read_overview(client)
    if output == "json":
        print_json([asdict(node) for node in found.nodes])
        return
    for line in sinfo_lines(found.nodes):
        click.echo(line)
