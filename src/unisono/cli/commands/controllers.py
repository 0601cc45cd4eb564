"""``unisono controllers``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unisono.cli.components import component_options, history_option, most_pods_option, scheduling_options

# Bytes of rows in a database that others run: 90 days of about 100,000 pods a day.
_MOST_HISTORY = 4 << 30


@click.command("controllers")
@scheduling_options
@click.option(
    "--foreign-kind",
    "foreign_kinds",
    metavar="KIND",
    multiple=True,
    help="Leave this training kind, such as PyTorchJob, to an operator of its own; may be repeated.",
)
@most_pods_option("set aside and told so")
@history_option(", in which is written down what ran")
@click.option(
    "--history-days",
    type=click.FloatRange(0.1, 36_500),
    default=90.0,
    show_default=True,
    help="Jobs that ended are kept one by one for so long, then as sums of hours.",
)
@component_options("unisono-controllers", 8081)
def command(
    scheduler_names: tuple[str, ...],
    default_queue: str,
    foreign_kinds: tuple[str, ...],
    most_pods: int,
    history_dsn_file: Path | None,
    history_days: float,
    run: Callable[[Any], None],
) -> None:
    """Run the controllers beside an API server, until they are told to end."""
    from unisono.standalone.component_processes import Recording, controllers_part

    history = None
    if history_dsn_file is not None:
        from unisono.history.database import Bounds
        from unisono.history.postgres import Postgres

        bounds = Bounds(history_days, max(Bounds().days, history_days), most_bytes=_MOST_HISTORY)
        history = Recording(Postgres.of_file(history_dsn_file), bounds)
    run(controllers_part(scheduler_names, default_queue, foreign_kinds, most_pods, history))
