"""The state that commands which change nothing decide about: of a live cluster or of files, and its time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from unisono.cli.options import Where
    from unisono.engine.config.model import SchedulerConfig
    from unisono.simulator.forecast.live import Followed, LiveObjects


def moment_of(now: str | None) -> float:
    """Seconds since 1970 of the option ``--now``, the present time without it.

    Raises:
        UsageError: it is no time.

    """
    from unisono.api.times import parse_time

    if now is None:
        return time.time()
    try:
        return parse_time(now)
    except ValueError:
        raise click.UsageError(f"--now takes a time such as 2026-11-20T12:00:00Z, not '{now}'.") from None


def objects_of(where: Where, files: tuple[str, ...]) -> LiveObjects:
    """The objects of files, or without any those of the cluster."""
    from unisono.cli.connection import connect, run_async
    from unisono.cli.manifests import read
    from unisono.simulator.forecast.live import list_objects, read_objects

    if files:
        return read_objects((manifest.value, manifest.where) for manifest in read(files))

    async def work() -> LiveObjects:
        async with connect(where) as client:
            return await list_objects(client)

    return run_async(work())


def config_of(where: Where, files: tuple[str, ...], config: Path | None) -> SchedulerConfig:
    """The scheduler configuration of a file, else that of the cluster; the default one for the objects of files.

    A configuration of the cluster that cannot be read is told.
    """
    from unisono.cli.connection import connect, run_async
    from unisono.engine.config_file.reader import load_config
    from unisono.install.options import NAMESPACE
    from unisono.simulator.experiment import config_text
    from unisono.simulator.forecast.live import configuration_in_force

    if config is not None or files:
        return load_config(config_text(config), "default configuration" if config is None else str(config))

    async def work() -> Followed:
        async with connect(where) as client:
            return await configuration_in_force(client, (NAMESPACE,))

    found = run_async(work())
    if found.hidden:
        click.echo(
            f"The scheduler's configuration stands in {found.hidden}, which cannot be read from here: this goes by the "
            "default one. --config FILE gives another.",
            err=True,
        )
    return load_config(found.text, found.name)
