"""``unisono report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unisono.cli.accounting.asking import history_place_options, time_options
from unisono.cli.options import Where, control_plane_options, option, output_option

if TYPE_CHECKING:
    from unisono.cli.accounting.asking import HistoryPlace
    from unisono.cli.accounting.money import Cost
    from unisono.history.report import Report


@click.command("report")
@time_options
@option(
    "--by",
    type=click.Choice(("queue", "namespace", "user", "job", "day")),
    default="queue",
    help="What a row stands for.",
)
@click.option("-q", "--queue", default="", help="Only of this queue.")
@click.option("-u", "--user", default="", help="Only of jobs that this user submitted.")
@click.option("-n", "--namespace", default="", help="Only of this namespace.")
@click.option("--money", is_flag=True, help="What it cost, too, by the prices of a PriceList.")
@option("--prices", default="default", metavar="NAME", help="The PriceList by which money is told.")
@output_option("table", "csv", "json", default="table")
@history_place_options
@control_plane_options
async def command(
    where: Where,
    since: str,
    until: str,
    by: str,
    queue: str,
    user: str,
    output: str,
    money: bool,
    prices: str,
    place: HistoryPlace,
) -> None:
    """Report who used how much: GPU-hours, CPU-hours, waiting times, ends, evictions and failures of a time.

    Jobs that are gone count, too. You see those of namespaces in which you may list jobs.
    """
    await _report(
        where, (since, until), {"by": by, "queue": queue, "user": user}, output, place, prices if money else ""
    )


async def _report(
    where: Where, times: tuple[str, str], asked: dict[str, str], output: str, place: HistoryPlace, prices: str = ""
) -> None:
    import time

    import msgspec

    from unisono.cli.accounting.asking import ask, window_of
    from unisono.cli.accounting.tables import report_csv, report_lines
    from unisono.cli.printing import print_json
    from unisono.history.report import Report

    start, end = window_of(*times, time.time())
    asked |= {"from": str(start), "to": str(end), "namespace": where.namespace or ""}
    usage = await ask(where, "report", asked | ({"nodes": "true"} if prices else {}), Report, place)
    cost = await _cost(where, usage, prices) if prices else None
    for row in (*usage.rows, usage.total):
        row.on = {}
    if output == "json":
        value = msgspec.to_builtins(usage)
        if cost is not None:
            value["currency"] = cost.currency
            for row in (*value["rows"], value["total"]):
                row["money"] = round(cost.by_row.get(row["key"], 0.0), 6)
        print_json(value)
    elif output == "csv":
        click.echo(report_csv(usage, cost), nl=False)
    else:
        for line in report_lines(usage, cost):
            click.echo(line)


async def _cost(where: Where, report: Report, name: str) -> Cost:
    """What the rows cost; users who may not list nodes are told the prices of those without labels."""
    from unisono.api.budgets import prices_of
    from unisono.api.kinds import NODES, PRICE_LISTS
    from unisono.cli.accounting.money import Cost, money_by_row
    from unisono.cli.connection import connect
    from unisono.errors import ApiError, NotFound

    async with connect(where) as client:
        lists = {one.metadata.name: one for one in (await client.list(PRICE_LISTS)).items}
        if name not in lists:
            there = ", ".join(sorted(lists)) or "none"
            raise NotFound(
                f"there is no PriceList {name}: create it, or name another one with --prices; there are {there}"
            )
        prices = prices_of(lists[name])
        note = ""
        try:
            labels = {node.metadata.name: node.metadata.labels or {} for node in (await client.list(NODES)).items}
        except ApiError as error:
            if error.code != 403:
                raise
            labels, note = {}, "You may not list nodes: prices for nodes with labels are left out."
    return Cost(prices.currency, money_by_row(report, prices, labels), note)
