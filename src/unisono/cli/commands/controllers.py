"""``unisono controllers``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from unisono.cli.components import component_options, scheduling_options


@click.command("controllers")
@scheduling_options
@component_options("unisono-controllers", 8081)
def command(scheduler_names: tuple[str, ...], default_queue: str, run: Callable[[Any], None]) -> None:
    """Run the controllers beside an API server, until they are told to end."""
    from unisono.standalone.parts import controllers_part

    run(controllers_part(scheduler_names, default_queue))
