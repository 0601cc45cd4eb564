"""``unisono simulate``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unisono.cli.options import FILE, NEW_FILE, option, output_option

if TYPE_CHECKING:
    from unisono.simulator.world.settings import Settings

_File = FILE
_Command = TypeVar("_Command", bound=Callable[..., Any])


class DefaultGroup(click.Group):
    """``group ARGS`` means ``group run ARGS`` where the first word is no command and no option of the group."""

    default = "run"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front where none is named."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


@click.group("simulate", cls=DefaultGroup)
def command() -> None:
    """Run the scheduler on a recorded or generated workload, on a virtual clock: unisono simulate WORKLOAD -c CLUSTER.

    Without the name of a command, run is meant.
    """


def _world_options(function: _Command) -> _Command:
    """Options on how the world goes."""
    for decorate in (
        click.option("--format", "form", help="Form of the workload.  [default: as the file looks]"),
        click.option("--jobs", "limit", type=click.IntRange(1), help="Take only so many jobs, the first ones."),
        click.option("--until", type=click.FloatRange(0), help="End after so many simulated seconds."),
        option(
            "--run-times",
            type=click.Choice(("exact", "estimate", "none")),
            default="estimate",
            help="What the scheduler is told of run times.",
        ),
        click.option("--startup", type=click.FloatRange(0), default=0.0, help="Seconds from bind to progress."),
        click.option("--grace", type=click.FloatRange(0), default=0.0, help="Seconds that evicted pods take to go."),
        click.option("--period", type=click.FloatRange(0), default=0.0, help="Shortest time between two cycles."),
        click.option(
            "--recheck",
            type=click.FloatRange(0),
            default=None,
            help="A cycle after so many idle seconds.  [default: 30 where something looks at the clock, else none]",
        ),
        click.option(
            "--failures",
            metavar="WHAT=TIME,...",
            help="Mean times between random failures of a pod, a node and a domain of a tier, and until repair, "
            "such as node=2160h,pod=720h,domain=8760h,tier=2,repair=4h.",
        ),
        click.option(
            "--topology-slowdown",
            metavar="TIER=FACTOR,...",
            help="Run times of jobs by the tier that joins their nodes, such as 2=1.1,3=1.3.",
        ),
        click.option("--model-speed", metavar="MODEL=SPEED,...", help="Speed by GPU model, such as A100=1,H100=2.2."),
        click.option(
            "--away",
            metavar="NODE=FROM-TO",
            multiple=True,
            help="A node is away from 2h to 6h: gpu-3=2h-6h, or for good: gpu-3=2h; may be repeated.",
        ),
    ):
        function = decorate(function)
    return function


def _read(options: dict[str, Any], *clusters: Path) -> dict[str, Any]:
    """Fields of settings from the words of options; what could change nothing on any of the clusters is refused."""
    from unisono.simulator.experiment import refuse_unused
    from unisono.simulator.world import settings

    fields = {key: value for key, value in options.items() if value is not None and value != ()}
    for key, name, read in (
        ("failures", "failures", settings.failures_from),
        ("topology_slowdown", "topology_slowdown", settings.slowdown_from),
        ("model_speed", "model_speed", settings.speeds_from),
        ("away", "changes", settings.changes_from),
    ):
        if key in fields:
            fields[name] = read(fields.pop(key))
    refuse_unused(fields, clusters)
    return fields


def _settings(seed: int, options: dict[str, Any], cluster: Path) -> Settings:
    from unisono.simulator.world.settings import Settings

    return Settings(seed=seed, **_read(options, cluster))


@command.command("run")
@click.argument("workload", type=_File)
@click.option("-c", "--cluster", type=_File, required=True, help="The cluster's description.")
@click.option("--config", type=_File, help="The scheduler's configuration.  [default: the built-in one]")
@option("--seed", type=int, default=0, help="For everything random.")
@_world_options
@click.option("--jobs-out", type=NEW_FILE, help="Write what became of each job.")
@output_option("text", "json")
def run(
    workload: Path,
    cluster: Path,
    config: Path | None,
    seed: int,
    form: str | None,
    limit: int | None,
    jobs_out: Path | None,
    output: str,
    **options: Any,
) -> None:
    """Simulate one workload; with -o json one line of metrics."""
    from unisono.cli.simulating import progress_bar, result_lines
    from unisono.simulator.experiment import read_experiment
    from unisono.simulator.metrics.summary import encode
    from unisono.simulator.world.outcome import write_jobs

    experiment = read_experiment(workload, cluster, config, _settings(seed, options, cluster), form=form, limit=limit)
    with progress_bar("jobs ended") as tell:
        outcome = experiment.run(tell)
    if jobs_out is not None:
        with jobs_out.open("wb") as file:
            write_jobs(outcome, file)
    result = experiment.result(outcome)
    if output == "json":
        click.echo(encode(result))
        return
    for line in result_lines(result):
        click.echo(line)
    for violation in outcome.violations[:10]:
        click.echo(f"Violation: {violation}")


@command.command("generate")
@click.argument("kind")
@click.option("-c", "--cluster", type=_File, required=True, help="The cluster that the load refers to.")
@option("--jobs", type=click.IntRange(1), default=1000, help="How many.")
@option(
    "--load",
    type=float,
    default=0.8,
    help="GPU time that would be used while jobs arrive, did each start at once, over that of the cluster.",
)
@option("--mean-seconds", type=float, default=3600.0, help="Mean run time; lublin has its own.")
@option("--users", type=click.IntRange(1), default=20, help="How many users there are.")
@click.option(
    "--queue", "queues", multiple=True, help="NAME or NAME=WEIGHT: a queue that jobs choose; may be repeated."
)
@option("--seed", type=int, default=0, help="The same seed gives the same workload.")
@click.option("--out", type=NEW_FILE, help="Write to a file.  [default: stdout]")
def generate(kind: str, cluster: Path, queues: tuple[str, ...], out: Path | None, **options: Any) -> None:
    """Write a workload in the native form: poisson, diurnal, or lublin (gangs as on parallel supercomputers)."""
    import sys

    from unisono.simulator.cluster_files import load_cluster
    from unisono.simulator.workload import formats
    from unisono.simulator.workload.generate import Recipe
    from unisono.simulator.workload.generate import generate as make
    from unisono.simulator.workload.job import largest

    where = load_cluster(cluster)
    recipe = Recipe(kind=kind, gpus=where.gpu_total, queues=_weights(queues), **options)
    jobs = make(recipe, largest(where))
    if out is None:
        formats.write(jobs, sys.stdout)
        return
    with out.open("w", encoding="utf-8") as file:
        formats.write(jobs, file)
    click.echo(f"Wrote {len(jobs)} jobs to {out}.")


def _weights(words: tuple[str, ...]) -> dict[str, float]:
    weights = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            weight = float(text or 1)
        except ValueError:
            weight = 0.0
        if not name or not 0 < weight < 1e9:
            raise click.UsageError(f"--queue takes NAME or NAME=WEIGHT with a weight above 0, not '{word}'.")
        weights[name] = weight
    return weights


@command.command("replay")
@click.argument("recording", type=_File)
@click.option("--config", type=_File, help="Decide with this configuration instead of the recorded one.")
@click.option("--seed", type=int, help="Instead of the recorded one.")
@output_option("text", "json")
def replay(recording: Path, config: Path | None, seed: int | None, output: str) -> None:
    """Repeat the cycles of a recorded scheduler; exit with 1 where the same configuration decides otherwise."""
    import sys

    from unisono.cli.simulating import replay_lines
    from unisono.engine.config_file.reader import load_config
    from unisono.simulator.experiment import config_text
    from unisono.simulator.metrics.summary import encode
    from unisono.simulator.replay import as_json
    from unisono.simulator.replay import replay as repeat

    used = None if config is None else load_config(config_text(config), str(config))
    replayed = repeat(recording, used, seed)
    if output == "json":
        click.echo(encode(as_json(replayed)))
    else:
        for line in replay_lines(replayed):
            click.echo(line)
    if replayed.different and config is None and seed is None:
        sys.exit(1)


@command.command("compare")
@click.argument("before", type=_File)
@click.argument("after", type=_File)
@click.option("--all", "everything", is_flag=True, help="Every metric, not only those that clearly differ.")
@click.option(
    "--jobs", "jobs", type=_File, nargs=2, metavar="BEFORE AFTER", help="Also compare jobs: two files of --jobs-out."
)
@output_option("text", "json")
def compare(before: Path, after: Path, everything: bool, jobs: tuple[Path, Path] | None, output: str) -> None:
    """Compare results of two sets of runs by pairs of the same workload, cluster and seed."""
    from unisono.cli.simulating import change_lines, job_change_lines
    from unisono.simulator.metrics.summary import encode
    from unisono.simulator.studies.compare import as_json, compare_jobs, jobs_as_json, read_jobs, read_results
    from unisono.simulator.studies.compare import compare as differences

    changes = differences(read_results(before), read_results(after))
    moved = compare_jobs(read_jobs(jobs[0]), read_jobs(jobs[1])) if jobs else []
    if output == "json":
        shown = {"unisono": "comparison", "version": 1, "metrics": as_json(changes), "jobs": jobs_as_json(moved)}
        click.echo(encode(shown))
        return
    for line in change_lines(changes, everything=everything):
        click.echo(line)
    for line in job_change_lines(moved) if jobs else ():
        click.echo(line)


@command.command("report")
@click.argument("workload", type=_File)
@click.option("-c", "--cluster", type=_File, required=True, help="The cluster's description.")
@click.option("--config", type=_File, help="The scheduler's configuration.  [default: the built-in one]")
@option("--seed", type=int, default=0, help="For everything random.")
@_world_options
@click.option("--out", type=NEW_FILE, required=True, help="The HTML file.")
def report(
    workload: Path,
    cluster: Path,
    config: Path | None,
    seed: int,
    form: str | None,
    limit: int | None,
    out: Path,
    **options: Any,
) -> None:
    """Simulate one workload and write a web page with plots that opens without a network."""
    from unisono.cli.simulating import progress_bar
    from unisono.simulator.experiment import read_experiment
    from unisono.simulator.studies.report import page

    experiment = read_experiment(workload, cluster, config, _settings(seed, options, cluster), form=form, limit=limit)
    with progress_bar("jobs ended") as tell:
        outcome = experiment.run(tell)
    out.write_text(page(outcome, experiment.result(outcome)), encoding="utf-8")
    click.echo(f"Wrote {out}.")


@command.command("sweep")
@click.option("-w", "--workload", "workloads", type=_File, multiple=True, required=True, help="May be repeated.")
@click.option("-c", "--cluster", "clusters", type=_File, multiple=True, required=True, help="May be repeated.")
@click.option("--config", "configs", type=_File, multiple=True, help="May be repeated.  [default: the built-in one]")
@option("--seeds", default="0", help="Such as 0-9 or 1,5,7.")
@_world_options
@click.option("--processes", type=click.IntRange(1), help="Runs at a time.  [default: one per core]")
@click.option(
    "--on",
    metavar="WHERE",
    help="Run as pods of a cluster (a kubeconfig), or of a control plane here (its data directory, or this-machine).",
)
@click.option(
    "--image", help="Container image with Unisono, for pods of a cluster.  [default: ghcr.io/unisono/unisono:VERSION]"
)
@option("--queue", default="default", help="Queue of the pods.")
@click.option("--out", type=NEW_FILE, required=True, help="The result file.")
def sweep(
    workloads: tuple[Path, ...],
    clusters: tuple[Path, ...],
    configs: tuple[Path, ...],
    seeds: str,
    processes: int | None,
    on: str | None,
    image: str | None,
    queue: str,
    out: Path,
    **options: Any,
) -> None:
    """Run all combinations of workloads, clusters, configurations and seeds; a stopped sweep goes on where it was.

    With --on the runs go out as jobs of pods with one CPU each, --processes pods at a time.
    """
    import os

    from unisono.cli.simulating import progress_bar
    from unisono.simulator.studies.sweep import points
    from unisono.simulator.studies.sweep import sweep as run_all

    form, limit = options.pop("form"), options.pop("limit")
    todo = points(
        workloads, clusters, configs, _seeds(seeds), form=form, limit=limit, settings=_read(options, *clusters)
    )
    cores = processes or len(os.sched_getaffinity(0))
    with progress_bar("runs") as tell:
        if on is None:
            ran = run_all(todo, out, processes=cores, progress=tell)
        else:
            from unisono.cli.simulating import client_of, on_pods

            with client_of(on) as client:
                pods = partial(on_pods, client, workers=cores, image=image, queue=queue)
                ran = run_all(todo, out, progress=tell, run_all=pods)
    click.echo(f"Wrote {len(todo)} results to {out}; {ran} were run now.")


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for word in text.split(","):
        first, _, last = word.strip().partition("-")
        try:
            low, high = int(first), int(last or first)
        except ValueError:
            low, high = 1, 0
        if not 0 <= low <= high < 10**9 or high - low > 100_000:
            raise click.UsageError(f"--seeds takes numbers and ranges such as 0-9 or 1,5,7, not '{text}'.")
        seeds += range(low, high + 1)
    return seeds


@command.command("calibrate")
@click.argument("workload", type=_File)
@click.option("-c", "--cluster", type=_File, required=True, help="The cluster's description.")
@click.option("--config", type=_File, help="The scheduler's configuration.  [default: the built-in one]")
@option("--seed", type=int, default=0, help="For everything random.")
@_world_options
@option("--moments", type=click.IntRange(1, 1000), default=20, help="How often to look.")
@option("--futures", type=click.IntRange(2, 1000), default=20, help="Of each forecast.")
@output_option("text", "json")
def calibrate(
    workload: Path,
    cluster: Path,
    config: Path | None,
    seed: int,
    form: str | None,
    limit: int | None,
    moments: int,
    futures: int,
    output: str,
    **options: Any,
) -> None:
    """Measure how often the 80 % interval of estimated starts holds the true one, along a workload."""
    from unisono.cli.simulating import calibration_lines, progress_bar
    from unisono.simulator.experiment import read_experiment
    from unisono.simulator.forecast.forecast import calibrate as look
    from unisono.simulator.metrics.summary import encode

    experiment = read_experiment(workload, cluster, config, _settings(seed, options, cluster), form=form, limit=limit)
    with progress_bar("moments") as tell:
        calibration = look(
            experiment.cluster,
            experiment.jobs,
            experiment.config,
            experiment.settings,
            moments=moments,
            futures=futures,
            progress=tell,
        )
    result = {"unisono": "calibration", "version": 1, **experiment.about, **calibration.figures()}
    if output == "json":
        click.echo(encode(result))
        return
    for line in calibration_lines(result):
        click.echo(line)
