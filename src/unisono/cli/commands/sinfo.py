"""``unisono sinfo``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, output_option, where_options


@click.command("sinfo")
@click.option("-p", "--partition", default="", help="Accepted: queues share all nodes.")
@click.option("-N", "--Node", "by_node", is_flag=True, help="Accepted: there is always a line for each node.")
@click.option("-l", "--long", is_flag=True, help="Accepted: all columns are always shown.")
@click.option("-h", "--noheader", is_flag=True, help="Without the names of the columns.")
@output_option("text", "json")
@where_options
def command(where: Where, partition: str, output: str, *, by_node: bool, long: bool, noheader: bool) -> None:
    """List nodes with their state and what is in use, as Slurm's sinfo does; see also 'unisono status'."""
    from unisono.cli.connection import run_async

    if partition:
        click.echo(f"{click.style('Note:', fg='yellow')} queues share all nodes; these are all", err=True)
    run_async(_sinfo(where, output, title=not noheader))


async def _sinfo(where: Where, output: str, *, title: bool) -> None:
    from dataclasses import asdict

    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.overview_lines import not_shown
    from unisono.cli.printing import print_json
    from unisono.cli.slurm.selecting import sinfo_lines
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        found = await read_overview(client, namespace_of(where))
    for line in not_shown(found, ("nodes", "pods")):
        click.echo(line, err=True)
    if output == "json":
        print_json([asdict(node) for node in found.nodes])
        return
    for line in sinfo_lines(found.nodes, title=title):
        click.echo(line)
