"""``unisono status``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, output_option, where_options


@click.command("status")
@click.option("--most", type=click.IntRange(1), default=20, show_default=True, help="Jobs of each list.")
@output_option("text", "json")
@where_options
def command(where: Where, most: int, output: str) -> None:
    """Show everything at a glance: components, nodes and their holes, queues, jobs that wait and why, jobs that run.

    The exit code is 1 where a component is not alive.
    """
    from unisono.cli.connection import run_async

    if run_async(_status(where, most, output)):
        raise SystemExit(1)


async def _status(where: Where, most: int, output: str) -> bool:
    """Print it; answers whether a component is not alive."""
    import shutil
    import sys

    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.overview_lines import overview_lines
    from unisono.cli.printing import print_json
    from unisono.sdk.overview.overview import read_overview

    async with connect(where) as client:
        found = await read_overview(client, namespace_of(where))
    if output == "json":
        print_json(found.json())
    else:
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else 1000
        for line in overview_lines(found, width=width, most=most, colour=terminal):
            click.echo(line)
    return any(part.problem for part in found.components)
