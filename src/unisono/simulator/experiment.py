"""One simulation as its inputs: files and settings, from which a run follows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from unisono import engine
from unisono.api.base import Object
from unisono.api.keys import GPU_PRODUCT
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.cluster.state import ClusterState
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
from unisono.simulator.workload.job import WHOLE_GPU, Job, largest
from unisono.simulator.world.objects import ObjectMaker
from unisono.simulator.world.outcome import WAITING, Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.settings import refuse_unused as unused
from unisono.simulator.world.world import Progress, World, fill

_OF_ONE: Mapping[str, Any] = {
    **{"name": "", "submit": 0.0, "run_seconds": None, "estimate": None, "deadline": None, "job_class": ""},
    **{"checkpoint": None, "restart_overhead": 0.0, "max_retries": None, "censored": False},
}
"""What may differ between jobs of which one fits where the other does."""
_MOST_SHAPES = 100
"""So many kinds of waiting jobs are tried on the empty cluster, those with most jobs."""


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
        """The metrics, with what they are of, and jobs that would not start even on the empty cluster."""
        found = summary(run, **self.about)
        hopeless = self._hopeless(run)
        return {**found, "hopeless": hopeless} if hopeless else found

    def _hopeless(self, run: Run) -> list[dict[str, Any]]:
        """Jobs that never started and cannot, alike ones together: an example, how many, and why in words."""
        alike: dict[bytes, list[Job]] = {}
        for outcome in run.outcomes:
            if outcome.state == WAITING and outcome.started is None:
                alike.setdefault(msgspec.json.encode(replace(outcome.job, **_OF_ONE)), []).append(outcome.job)
        shared = any(role.gpu_milli < WHOLE_GPU for job in self.jobs for role in job.roles)
        maker, state, found = (
            ObjectMaker(shared=shared, run_times="none", epoch=self.settings.epoch),
            ClusterState(),
            [],
        )
        fill(state, run.cluster, self.jobs)
        for jobs in sorted(alike.values(), key=len, reverse=True)[:_MOST_SHAPES]:
            job = replace(jobs[0], submit=0.0)
            group, roles = maker.group(job, 0), [role for role in job.roles for _ in range(role.count)]
            pods = [maker.pod(job, role, f"{job.name}-{at}", 0.0) for at, role in enumerate(roles)]
            objects: list[tuple[Kind[Any], Object]] = [(POD_GROUPS, group), *((PODS, pod) for pod in pods)]
            for kind, obj in objects:
                state.apply("ADDED", kind, obj)
            decided = engine.run(
                state.snapshot(),
                self.config,
                self.settings.epoch,
                self.settings.seed,
                plugins=self.plugins,
                advice=False,
            )
            if len(decided.binds) < job.minimum:
                verdict = decided.verdicts.get(group.key)
                why = verdict.message.rstrip(".") if verdict is not None else "the configuration places nothing"
                found.append({"job": job.name, "jobs": len(jobs), "why": why})
            for kind, obj in reversed(objects):
                state.apply("DELETED", kind, obj)
        return found


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


def refuse_unused(options: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """Refuse fields of settings that name a GPU model, a tier or a node that none of the clusters has.

    Raises:
        InputError: it says which, and what there is.

    """
    if options.keys().isdisjoint(("model_speed", "topology_slowdown", "failures")):
        return
    clusters = [cluster_from(path) for path in paths]
    labels = [node.metadata.labels or {} for cluster in clusters for node in cluster.nodes]
    models = {each[GPU_PRODUCT] for each in labels if GPU_PRODUCT in each}
    tiers = max((len(path) for cluster in clusters for path in cluster.paths.values()), default=0)
    unused(Settings(**options), models, tiers)


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
