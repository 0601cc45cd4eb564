"""``unisono whatif``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from unisono.cli.explaining import FUTURES, LOOK_AHEAD
from unisono.cli.options import FILE, Where, file_option, option, output_option, where_options
from unisono.cli.overview_lines import config_of, moment_of, objects_of

_File = FILE


@click.command("whatif")
@where_options
@file_option(required=False)
@click.option(
    "--change",
    "--submit",
    "changes",
    type=_File,
    multiple=True,
    help="What to change, or a job that is not submitted yet (YAML); may be repeated.",
)
@click.option("--config", type=_File, help="The scheduler's configuration.  [default: the cluster's]")
@option("--for", "duration", default=LOOK_AHEAD, help="How far to look ahead, such as 4h.")
@option("--futures", type=click.IntRange(1, 1000), default=FUTURES, help="Possible futures.")
@option(
    "--seconds",
    type=click.FloatRange(0.0, min_open=True),
    default=30.0,
    help="Time of a processor until it answers with what it has, a fast model's futures at least.",
)
@option("--seed", type=int, default=0, help="The same seed gives the same answer.")
@click.option("--now", help="The time of the files (RFC 3339).  [default: now]")
@output_option("text", "json")
def command(
    where: Where,
    files: tuple[str, ...],
    changes: tuple[Path, ...],
    config: Path | None,
    duration: str,
    futures: int,
    seconds: float,
    seed: int,
    now: str | None,
    output: str,
) -> None:
    """Say when waiting jobs start, and what a change of nodes, queues, priorities or configuration would do.

    Takes the state of a live cluster, or of files (-f, as kubectl get -A -o json prints them), and simulates what may
    come. Nothing is changed anywhere.
    """
    from unisono.cli.simulating import progress_bar, start_lines, whatif_lines
    from unisono.simulator.forecast.forecast import Budget, forecast
    from unisono.simulator.forecast.whatif import apply_changes, as_json, starts_json, what_if
    from unisono.simulator.metrics.summary import encode

    until, moment = _seconds(duration), moment_of(now)
    used = config_of(where, files, config)
    objects = objects_of(where, files)
    common: dict[str, Any] = {"futures": futures, "until": until, "seed": seed}
    common["budget"] = Budget.of(seconds, time.process_time)
    if not changes:
        with progress_bar("futures") as tell:
            prediction = forecast(objects, used, moment, **common, whole=False, progress=tell)
        if output == "json":
            click.echo(encode(starts_json(prediction, moment, until)))
            return
        lines = start_lines(prediction, until)
    else:
        changed = apply_changes(objects, _documents(changes), moment)
        with progress_bar("futures") as tell:
            answer = what_if(objects, used, moment, changed, **common, progress=tell)
        if output == "json":
            click.echo(encode(as_json(answer)))
            return
        lines = whatif_lines(answer)
    for line in lines:
        click.echo(line)


def _seconds(duration: str) -> float:
    from unisono.api.times import parse_duration

    try:
        seconds = parse_duration(duration)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise click.UsageError(f"--for takes a time such as 4h or 90m, not '{duration}'.")
    return seconds


def _documents(files: tuple[Path, ...]) -> list[tuple[dict[str, object], str]]:
    from unisono.api.yaml import load_all
    from unisono.errors import ConfigError

    documents = []
    for file in files:
        for document in load_all(file.read_bytes(), str(file)):
            if not isinstance(document.value, dict):
                raise ConfigError(
                    "give objects, nodes, or a scheduler configuration", file=str(file), line=document.line
                )
            documents.append((document.value, f"{file}:{document.line}"))
    return documents
