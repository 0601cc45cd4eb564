"""``unisono defrag``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unisono.cli.options import Where, file_option, output_option, where_options

if TYPE_CHECKING:
    from unisono.simulator.forecast.live import LiveObjects


@click.command("defrag")
@where_options
@file_option(required=False)
@click.option("--dry-run", is_flag=True, help="Show the plans; the scheduler's action defragment carries them out.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's configuration.  [default: the built-in one]",
)
@click.option("--max-moves", type=click.IntRange(1, 10_000), help="Pods moved for one gang at most.")
@click.option("--now", help="The time of the files (RFC 3339).  [default: now]")
@output_option("text", "json")
def command(
    where: Where,
    files: tuple[str, ...],
    dry_run: bool,
    config: Path | None,
    max_moves: int | None,
    now: str | None,
    output: str,
) -> None:
    """Say which pods to move so that gangs start that wait although there is enough room in all.

    Takes the state of a live cluster, or of files (-f, as kubectl get -A -o json prints them). Each plan was tried on a
    copy: the gang starts, and every moved pod finds another node. Nothing is changed anywhere.
    """
    if not dry_run:
        raise click.UsageError(
            "give --dry-run: plans are carried out by the scheduler, with defragment among the actions of its "
            "configuration."
        )
    from unisono.cli.printing import print_json
    from unisono.cli.showing_plans import plan_lines, plans_as_json
    from unisono.engine.config_file.reader import load_config
    from unisono.scheduler.defragmentation import plans_for
    from unisono.simulator.experiment import config_text

    used = load_config(config_text(config), "default configuration" if config is None else str(config))
    moment = _moment(now)
    objects = _from_files(files) if files else _from_cluster(where)
    answer = plans_for(objects.state().snapshot(), used, moment, max_moves)
    if output == "json":
        print_json(plans_as_json(answer))
        return
    for line in plan_lines(answer):
        click.echo(line)


def _moment(now: str | None) -> float:
    from unisono.api.times import parse_time

    if now is None:
        return time.time()
    try:
        return parse_time(now)
    except ValueError:
        raise click.UsageError(f"--now takes a time such as 2026-11-20T12:00:00Z, not '{now}'.") from None


def _from_files(files: tuple[str, ...]) -> LiveObjects:
    from unisono.cli.manifests import read
    from unisono.simulator.forecast.live import read_objects

    return read_objects((manifest.value, manifest.where) for manifest in read(files))


def _from_cluster(where: Where) -> LiveObjects:
    from unisono.cli.connection import connect, run_async
    from unisono.simulator.forecast.listing import list_objects

    async def work() -> LiveObjects:
        async with connect(where) as client:
            return await list_objects(client)

    return run_async(work())
