"""``unisono schedule``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unisono.cli.options import FILE, file_option, option, output_option
from unisono.cli.overview_lines import moment_of

if TYPE_CHECKING:
    from unisono.cli.manifests import Manifest
    from unisono.engine.config.model import SchedulerConfig
    from unisono.scheduler.offline import OfflineCluster


@click.command("schedule")
@file_option()
@click.option(
    "--config", type=FILE, help="The scheduler's configuration, in Volcano's format.  [default: the built-in one]"
)
@click.option("--no-plugin-defaults", is_flag=True, help="A flag of a plug-in that the configuration omits is off.")
@option("--seed", type=int, default=0, help="For plug-ins that use randomness.")
@click.option("--now", help="Decide as if it were this time (RFC 3339).  [default: now]")
@output_option("text", "json")
def command(
    files: tuple[str, ...], config: Path | None, no_plugin_defaults: bool, seed: int, now: str | None, output: str
) -> None:
    """Run one scheduling cycle on objects from files and print what would happen; no cluster is touched.

    Reads nodes, pods, PodGroups, queues, priority classes and whatever else the plug-ins look at, as YAML or JSON, also
    as dumps of a live cluster: kubectl get nodes,pods,podgroups,queues -A -o json > dump.json
    """
    from unisono.cli.manifests import read
    from unisono.cli.printing import print_json
    from unisono.errors import UnisonoError
    from unisono.scheduler.offline import read_cluster, timed

    scheduler_config = _config(config, no_plugin_defaults)
    moment = moment_of(now)
    started = time.monotonic()
    manifests = read(files)
    cluster = read_cluster((manifest.value, manifest.where) for manifest in manifests)
    if cluster.ignored and not cluster.counts:
        others = ", ".join(sorted(cluster.ignored))
        raise UnisonoError(
            f"there is nothing to decide on in these files, only {others}: give nodes, pods, PodGroups and queues."
        )
    cluster.problems += [*unasked(scheduler_config), *undecided(manifests, cluster)]
    reading = time.monotonic() - started
    answer = timed(cluster, scheduler_config, moment, seed, time.monotonic)
    answer["seconds"] = {"read": round(reading, 6), **answer["seconds"]}
    if output == "json":
        print_json(answer)
        return
    for line in lines(cluster, answer):
        click.echo(line)


def _config(file: Path | None, bare: bool) -> Any:
    from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
    from unisono.errors import ConfigError
    from unisono.scheduler.offline import without_defaults

    try:
        text = DEFAULT_TEXT if file is None else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the scheduler configuration cannot be read: {error}", file=str(file)) from None
    name = "default configuration" if file is None else str(file)
    return without_defaults(text, name) if bare else load_config(text, name)


def unasked(config: SchedulerConfig) -> list[str]:
    """A sentence when the configuration has plug-ins that ask a service, which a decision from files does not do."""
    if all(plugin.name != "extender" for plugin in config.plugins):
        return []
    return [
        "the plug-in extender is not asked here, so no pod is placed: remove it from a copy of the configuration to "
        "decide without it"
    ]


def undecided(manifests: Sequence[Manifest], cluster: OfflineCluster) -> list[str]:
    """A sentence for each job that a file brings without its PodGroup: the scheduler decides on PodGroups and pods."""
    owners = {
        (group.metadata.namespace, owner.kind, owner.name)
        for group in cluster.groups.values()
        for owner in group.metadata.owner_references or ()
    }
    jobs = [
        manifest
        for manifest in manifests
        if manifest.kind.endswith("Job")
        and manifest.api_version.partition("/")[0] in ("batch.volcano.sh", "kubeflow.org")
        and (manifest.metadata.get("namespace", "default"), manifest.kind, manifest.name) not in owners
        and not _ended(manifest.value.get("status") or {})
    ]
    return [
        f"{job.where}: nothing is decided on the {job.kind} {job.name}, because its PodGroup and pods are not in the "
        "files: create it on a control plane, which makes them, and dump that"
        for job in jobs
    ]


def _ended(status: dict[str, Any]) -> bool:
    """The job needs no place any more, and its PodGroup may be deleted."""
    phase = (status.get("state") or {}).get("phase")
    conditions = status.get("conditions") or ()
    over = any(each.get("type") in ("Succeeded", "Failed") and each.get("status") == "True" for each in conditions)
    return over or phase in ("Completed", "Failed", "Aborted", "Terminated")


def lines(cluster: OfflineCluster, answer: dict[str, Any]) -> list[str]:
    """The answer for people: what starts where, who is evicted, and who waits for what."""
    from msgspec import convert

    from unisono.api.verdict import Verdict
    from unisono.cli.explaining import verdict_lines
    from unisono.cli.printing import columns

    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(cluster.counts.items()))
    output_lines = [f"Read {counts}."] + [
        f"Left out: {count} {name}" for name, count in sorted(cluster.ignored.items())
    ]
    output_lines += [f"Problem: {problem}" for problem in answer["problems"]]
    jobs = {task.key: task.job for task in cluster.state.tasks.values()}
    placed = Counter((jobs[pod], node) for pod, node in answer["binds"].items())
    if placed:
        rows = [(job, node, count) for (job, node), count in sorted(placed.items())]
        output_lines += ["", "Would start:", *(f"  {line}" for line in columns(("PodGroup", "Node", "Pods"), rows))]
    if answer["evictions"]:
        rows = [(one["pod"], one["reason"], one["beneficiary"]) for one in answer["evictions"]]
        output_lines += ["", "Would be evicted:", *(f"  {line}" for line in columns(("Pod", "Reason", "For"), rows))]
    if answer["verdicts"]:
        output_lines += ["", "Would wait:"]
        verdicts = convert(list(answer["verdicts"].values()), list[Verdict])
        output_lines += [f"  {line}" for verdict in verdicts for line in verdict_lines(verdict)]
    output_lines += [f"Violation: {one['subject']}: {one['message']}" for one in answer["violations"]]
    seconds = answer["seconds"]
    output_lines += [
        "",
        f"Decided in {seconds['decide'] * 1000:.1f} ms (objects read in {seconds['read'] * 1000:.1f} ms).",
    ]
    return output_lines
