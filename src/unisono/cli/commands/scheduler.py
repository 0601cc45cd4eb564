"""``unisono scheduler``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unisono.api.annotations import CYCLES_LEASE
from unisono.cli.components import component_options, scheduling_options


@click.command("scheduler")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's configuration, in Volcano's format; changes take effect at once.",
)
@click.option(
    "--bind-concurrency",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    help="Binds under way at a time.",
)
@click.option(
    "--gang-patience",
    type=click.FloatRange(1.0),
    default=60.0,
    show_default=True,
    help="Seconds after which a gang that is bound only in part is released.",
)
@click.option(
    "--heartbeat-lease",
    default=f"kube-system/{CYCLES_LEASE}",
    show_default=True,
    help="NAMESPACE/NAME of the Lease that is renewed when cycles end.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write down what is seen and decided, for 'unisono simulate replay'.",
)
@scheduling_options
@component_options("unisono-scheduler", 8080)
def command(
    config: Path | None,
    bind_concurrency: int,
    gang_patience: float,
    heartbeat_lease: str,
    record: Path | None,
    scheduler_names: tuple[str, ...],
    default_queue: str,
    run: Callable[[Any], None],
) -> None:
    """Run the scheduler beside an API server, until it is told to end."""
    from unisono.scheduler.settings import FileConfig, FixedConfig
    from unisono.standalone.component_processes import scheduler_part

    source = FixedConfig() if config is None else FileConfig(config)
    run(
        scheduler_part(
            source,
            scheduler_names,
            default_queue,
            bind_concurrency=bind_concurrency,
            gang_patience=gang_patience,
            heartbeat_lease=heartbeat_lease,
            record=record,
        )
    )
