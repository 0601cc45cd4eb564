"""``unisono report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unisono.cli.accounting.asking import history_place_options, time_options
from unisono.cli.options import Where, control_plane_options, output_option

if TYPE_CHECKING:
    from unisono.cli.accounting.asking import HistoryPlace


@click.command("report")
@time_options
@click.option(
    "--by",
    type=click.Choice(("queue", "namespace", "user", "job", "day")),
    default="queue",
    show_default=True,
    help="What a row stands for.",
)
@click.option("-q", "--queue", default="", help="Only of this queue.")
@click.option("-u", "--user", default="", help="Only of jobs that this user submitted.")
@click.option("-n", "--namespace", default="", help="Only of this namespace.")
@output_option("table", "csv", "json", default="table")
@history_place_options
@control_plane_options
def command(
    where: Where, since: str, until: str, by: str, queue: str, user: str, output: str, place: HistoryPlace
) -> None:
    """Report who used how much: GPU-hours, CPU-hours, waiting times, ends, evictions and failures of a time.

    Jobs that are gone count, too. You see those of namespaces in which you may list jobs.
    """
    from unisono.cli.connection import run_async

    run_async(_report(where, (since, until), {"by": by, "queue": queue, "user": user}, output, place))


async def _report(
    where: Where, times: tuple[str, str], asked: dict[str, str], output: str, place: HistoryPlace
) -> None:
    import time

    import msgspec

    from unisono.cli.accounting.asking import ask, window_of
    from unisono.cli.accounting.tables import report_csv, report_lines
    from unisono.cli.printing import print_json
    from unisono.history.report import Report

    start, end = window_of(*times, time.time())
    asked |= {"from": str(start), "to": str(end), "namespace": where.namespace or ""}
    found = await ask(where, "report", asked, Report, place)
    if output == "json":
        print_json(msgspec.to_builtins(found))
    elif output == "csv":
        click.echo(report_csv(found), nl=False)
    else:
        for line in report_lines(found):
            click.echo(line)
