"""``unisono budgets``."""

from __future__ import annotations

import click

from unisono.cli.options import Where, control_plane_options, output_option

_COLUMNS = ("name", "mode", "of", "amount", "used", "left", "rate", "period_end", "exhausted")


@click.command("budgets")
@click.argument("names", nargs=-1, metavar="[NAME...]")
@output_option("table", "csv", "json", default="table")
@control_plane_options
async def command(where: Where, names: tuple[str, ...], output: str) -> None:
    """List budgets: how much there is, what is used and left, how fast, and until when it lasts.

    Used is as of now. Of several amounts of one budget each has a line of its own.
    """
    import csv
    import sys
    import time

    import msgspec

    from unisono.api.kinds import BUDGETS
    from unisono.cli.connection import connect
    from unisono.cli.printing import columns, print_json
    from unisono.errors import NotFound
    from unisono.sdk.overview.queues import budget_lines

    async with connect(where) as client:
        budgets = (await client.list(BUDGETS)).items
    for name in names:
        if not any(one.metadata.name == name for one in budgets):
            there = ", ".join(sorted(one.metadata.name for one in budgets)) or "none"
            raise NotFound(f"there is no budget {name}; there are {there}")
    shown = [one for one in budgets if not names or one.metadata.name in names]
    if output == "json":
        print_json([msgspec.to_builtins(one) for one in shown])
        return
    rows = [
        [one.name, one.mode, one.unit, one.amount, one.used, one.left, one.rate, one.end, one.exhausted]
        for one in budget_lines(shown, time.time())
    ]
    if output == "csv":
        csv.writer(sys.stdout, lineterminator="\n").writerows([_COLUMNS, *rows])
    elif not rows:
        click.echo("There are no budgets.")
    else:
        headers = [name.replace("_", " ") for name in _COLUMNS]
        for line in columns(headers, rows, empty=""):
            click.echo(line)
