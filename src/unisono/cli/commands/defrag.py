"""``unisono defrag``."""

from __future__ import annotations

from pathlib import Path

import click

from unisono.cli.cluster_state import config_of, moment_of, objects_of
from unisono.cli.options import Where, file_option, output_option, where_options


@click.command("defrag")
@where_options
@file_option(required=False)
@click.option("--dry-run", is_flag=True, help="Show the plans; the scheduler's action defragment carries them out.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's configuration.  [default: the cluster's]",
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
    from unisono.scheduler.defragmentation import plans_for

    used = config_of(where, files, config)
    moment = moment_of(now)
    objects = objects_of(where, files)
    answer = plans_for(objects.state().snapshot(), used, moment, max_moves)
    if output == "json":
        print_json(plans_as_json(answer))
        return
    for line in plan_lines(answer):
        click.echo(line)
