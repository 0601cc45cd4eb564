"""Builders for simulated worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.simulator.clusters import Cluster, build
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

FIFO = "actions: enqueue, allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n"
PREEMPT = (
    "actions: enqueue, allocate, preempt\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n"
    "    enablePreemptable: false\n- plugins:\n  - name: predicates\n"
)


def cluster(count: int = 2, gpus: int = 4, **more: Any) -> Cluster:
    nodes = [{"name": "n", "count": count, "cpu": 32, "memory": "64Gi", "gpus": gpus}]
    return build({"nodes": nodes, **more})


def job(name: str, submit: float = 0, seconds: float | None = 100, gpus: int = 1, pods: int = 1, **more: Any) -> Job:
    roles = more.pop("roles", (Role(count=pods, gpus=gpus, cpu_milli=1000),))
    return Job(name=name, submit=submit, run_seconds=seconds, roles=roles, **more)


def simulate(
    jobs: Sequence[Job], where: Cluster | None = None, config: str | SchedulerConfig = FIFO, **settings: Any
) -> Run:
    read = load_config(config) if isinstance(config, str) else config
    return World(where or cluster(), sorted(jobs, key=lambda each: each.submit), read, Settings(**settings)).run()


def times(run: Run) -> dict[str, tuple[float | None, float | None]]:
    return {outcome.job.name: (outcome.started, outcome.ended) for outcome in run.outcomes}
