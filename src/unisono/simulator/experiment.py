"""One simulation as its inputs: files and settings, from which a run follows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.engine.contract.plugin import Plugin
from unisono.errors import ConfigError
from unisono.simulator.abilities import refuse_missing
from unisono.simulator.clusters import Cluster, load_cluster
from unisono.simulator.files import InputError
from unisono.simulator.metrics.summary import summary
from unisono.simulator.recording.history import cluster_of, jobs_of, read_history
from unisono.simulator.recording.replay import is_recording
from unisono.simulator.workload.formats import load
from unisono.simulator.workload.job import Job, largest
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import Progress, World


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a run is a function of.

    Attributes:
        name: for people.
        jobs, cluster, config, settings: see their modules.
        plugins: plug-ins by name, looked up before the registry.
        about: what the result says of its inputs.

    """

    jobs: list[Job]
    cluster: Cluster
    config: SchedulerConfig
    settings: Settings
    plugins: Mapping[str, type[Plugin]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def run(self, progress: Progress | None = None) -> Run:
        """Simulate."""
        world = World(self.cluster, self.jobs, self.config, self.settings, plugins=self.plugins, progress=progress)
        return world.run()

    def result(self, run: Run) -> dict[str, Any]:
        """The metrics, with what they are of."""
        return summary(run, **self.about)


def read_experiment(
    workload: Path,
    cluster: Path,
    config: Path | None,
    settings: Settings,
    *,
    form: str | None = None,
    limit: int | None = None,
) -> Experiment:
    """Read the files of an experiment; ``limit`` takes the first jobs only.

    Raises:
        WorkloadError, ClusterError, ConfigError: a file breaks a rule; the message names the place.

    """
    where = cluster_from(cluster)
    jobs = workload_from(workload, form, where)[:limit]
    text = config_text(config)
    about = {
        "workload": workload.name,
        "cluster": cluster.name,
        "config": "default" if config is None else config.name,
        "configHash": hashlib.sha256(text.encode()).hexdigest()[:12],
        "seed": settings.seed,
    }
    name = "default configuration" if config is None else str(config)
    scheduler = load_config(text, name)
    refuse_missing(scheduler, name)
    return Experiment(jobs, where, scheduler, settings, about=about)


def cluster_from(path: Path) -> Cluster:
    """A cluster from its description, or from a recording."""
    if is_recording(path):
        return cluster_of(read_history(path), path)
    return load_cluster(path)


def workload_from(path: Path, form: str | None, cluster: Cluster) -> list[Job]:
    """Jobs from a workload, or from a recording."""
    if form is None and is_recording(path):
        jobs = jobs_of(read_history(path))
        if not jobs:
            raise InputError(f"{path}: no job has started in this recording")
        return jobs
    return load(path, form, largest(cluster))


def config_text(file: Path | None) -> str:
    """A scheduler configuration as text; that of the running scheduler without a file."""
    if file is None:
        return DEFAULT_TEXT
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the scheduler configuration cannot be read: {error}", file=str(file)) from None
