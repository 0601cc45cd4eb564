"""``unisono controllers``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from unisono.cli.components import component_options, most_pods_option, scheduling_options


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
@component_options("unisono-controllers", 8081)
def command(
    scheduler_names: tuple[str, ...],
    default_queue: str,
    foreign_kinds: tuple[str, ...],
    most_pods: int,
    run: Callable[[Any], None],
) -> None:
    """Run the controllers beside an API server, until they are told to end."""
    from unisono.standalone.component_processes import controllers_part

    run(controllers_part(scheduler_names, default_queue, foreign_kinds, most_pods))
