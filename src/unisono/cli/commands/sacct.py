"""``unisono sacct``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from unisono.cli.accounting.asking import history_place_options, time_options
from unisono.cli.options import Where, control_plane_options, output_option

if TYPE_CHECKING:
    from unisono.cli.accounting.asking import HistoryPlace
    from unisono.history.report import Accounts


@click.command("sacct")
@time_options
@click.option(
    "-j", "--job", "--jobs", "name", default="", metavar="JOB,...", help="Only these jobs, by name or number."
)
@click.option("-p", "--partition", default="", help="Only jobs of this queue.")
@click.option("-u", "--user", default="", help="Only jobs that this user submitted.")
@click.option("-n", "--namespace", default="", help="Only jobs of this namespace.")
@click.option("--format", "columns", default="", metavar="COLUMN,...", help="Only these columns, such as JobID,State.")
@click.option("-s", "--state", default="", metavar="STATE,...", help="Only jobs in these states, such as F or FAILED.")
@click.option("-P", "--parsable2", "parsable", is_flag=True, help="Cells between bars, as scripts read them.")
@click.option("--noheader", is_flag=True, help="Without the line of the columns' names.")
@click.option("--name", "other", default="", metavar="NAME,...", help="As --jobs.")
@click.option("-X", "--allocations", is_flag=True, help="Accepted: there is always one line for each job.")
@output_option("table", "csv", "json", default="table")
@history_place_options
@control_plane_options
async def command(
    where: Where,
    since: str,
    until: str,
    name: str,
    other: str,
    partition: str,
    user: str,
    columns: str,
    state: str,
    output: str,
    place: HistoryPlace,
    *,
    parsable: bool,
    noheader: bool,
    allocations: bool,
) -> None:
    """List jobs with their use and their end, also those that are gone, as Slurm's sacct does."""
    from unisono.cli.accounting.tables import sacct_columns, sacct_states
    from unisono.cli.slurm.selecting import names_of

    try:
        shown, states = sacct_columns(columns), sacct_states(state)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    if (columns or state or parsable or noheader) and output != "table":
        raise click.UsageError(
            "--format, --state, --parsable2 and --noheader are for the table: csv and json have all."
        )
    asked = {"queue": partition, "user": user}
    await _sacct(
        where,
        (since, until),
        names_of([name, other]),
        asked,
        output,
        {"shown": shown, "states": states, "parsable": parsable, "title": not noheader},
        place,
    )


async def _sacct(
    where: Where,
    times: tuple[str, str],
    names: frozenset[str],
    asked: dict[str, str],
    output: str,
    table: dict[str, Any],
    place: HistoryPlace,
) -> None:
    import time

    import msgspec

    from unisono.cli.accounting.asking import window_of
    from unisono.cli.accounting.tables import sacct_csv, sacct_lines
    from unisono.cli.printing import print_json

    start, end = window_of(*times, time.time())
    asked |= {"from": str(start), "to": str(end), "namespace": where.namespace or ""}
    accounts = await _jobs(where, names, asked, place)
    if output == "json":
        print_json(msgspec.to_builtins(accounts))
    elif output == "csv":
        click.echo(sacct_csv(accounts), nl=False)
    else:
        for line in sacct_lines(accounts, **table):
            click.echo(line)
        if accounts.more:
            click.echo("There are more jobs: these are the latest; ask for a shorter time.", err=True)


async def _jobs(where: Where, names: frozenset[str], asked: dict[str, str], place: HistoryPlace) -> Accounts:
    """Jobs of these names or numbers, or the elements of arrays that have them; all jobs for no names."""
    from unisono.cli.accounting.asking import ask
    from unisono.cli.slurm.selecting import is_called
    from unisono.history.report import Accounts

    if any(name.isdigit() for name in names):
        names = await _named(where, names)
    if len(names) == 1:
        accounts = await ask(where, "jobs", {**asked, "name": next(iter(names))}, Accounts, place)
        if accounts.jobs:
            return accounts
    accounts = await ask(where, "jobs", asked, Accounts, place)
    if names:
        accounts.jobs = [job for job in accounts.jobs if any(is_called(job.name, name) for name in names)]
    return accounts


async def _named(where: Where, names: frozenset[str]) -> frozenset[str]:
    """Names in place of numbers, of jobs that are still there; without a control plane they stay."""
    from unisono.cli.connection import connect, namespace_of
    from unisono.cli.slurm.selecting import without_numbers
    from unisono.errors import UnisonoError

    try:
        async with connect(where) as client:
            return await without_numbers(client, namespace_of(where), names)
    except UnisonoError:
        return names
