"""Q1: how many GPUs stay unallocated when pods that share GPUs fill a cluster (USENIX ATC 2023).

Pods arrive one after the other in a random order until they ask for 1.3 times the cluster's GPUs; what does not fit is
dropped, nothing ever leaves. Read is the share of GPUs that is not allocated when all of them have been asked for.
Decisions for several arrivals are taken in one cycle, in their order: that equals one cycle each, because no setting
looks at pods that have not had their turn (`fragmentation.usual: seen` takes its mix again at the ends of cycles here).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.openb import OpenPod, arrivals, read_nodes, read_pods
from benchmarks.quality.policies import GANG, PREDICATES, configuration, plugin
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.clusters import GPU_COUNT, GPU_MILLI, GPU_PRODUCT, Cluster, make_node, with_node_order
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

TRACES = (
    *("default", "cpu050", "cpu100", "cpu200", "cpu250"),
    *("gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
    *("gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33"),
)

_TABLE = """
random 13.70 10.98 12.57 16.97 20.00 15.14 17.19 19.38 21.10 13.08 13.37 14.62 18.72 13.74 14.10 14.58 16.13
dot-product 9.38 6.97 8.27 12.55 16.43 10.70 13.18 15.86 18.02 8.15 6.89 5.96 5.27 9.83 11.71 14.56 20.18
clustering 8.35 6.48 7.58 10.33 12.25 10.24 13.10 15.50 17.78 6.66 5.45 4.65 4.31 8.04 10.89 13.59 18.91
packing 8.22 6.54 7.50 10.02 11.95 10.23 12.85 15.35 17.87 6.50 5.30 4.41 3.94 7.76 10.72 13.23 17.78
best-fit 7.14 6.44 6.74 7.85 8.79 8.56 10.94 13.34 15.38 6.27 5.43 4.90 4.38 6.90 11.54 14.33 19.61
fgd 4.77 5.00 4.79 5.18 6.80 6.04 8.75 10.92 13.36 4.47 3.64 3.09 2.91 5.34 5.34 6.09 12.16
bound 3.10 3.12 3.09 3.11 3.10 4.36 6.68 8.58 10.84 2.64 2.34 1.97 1.65 3.15 3.10 3.13 3.60
"""


def _rows(table: str) -> dict[str, dict[str, float]]:
    found = {}
    for line in table.strip().splitlines():
        name, *row = line.split()
        found[name] = dict(zip(TRACES, map(float, row), strict=True))
    return found


PUBLISHED = _rows(_TABLE)
"""Percent of GPUs unallocated at 100 % arrived, means of ten seeds, by policy and list."""

BOUND = PUBLISHED.pop("bound")
"""No scheduler leaves less, whatever it knows; by list. `unisono.simulator.bounds` works it out."""

POLICIES = (*PUBLISHED, "unisono")


def configured(policy: str, pods: Sequence[OpenPod]) -> SchedulerConfig:
    """The scheduler configuration of a policy; that of the paper is told the list before it is inflated."""
    arguments: dict[str, Any] = {"gpu-placement.rule": policy}
    if policy == "fgd":
        arguments = {"fragmentation.pods": _usual(pods)}
    elif policy == "unisono":
        arguments = LEARNING
    name = "gpu-placement" if policy in PUBLISHED and policy != "fgd" else "fragmentation"
    scoring = [PREDICATES, plugin("deviceshare"), plugin(name, arguments)]
    return configuration(policy, "allocate", [GANG], scoring)


LEARNING = {
    "fragmentation.usual": "seen",
    "fragmentation.coverage": 1.0,
    "fragmentation.balance": 1.75,
    "fragmentation.sizeExponent": -0.4,
    "fragmentation.scarcity": 1.0,
}
"""The setting that docs/scheduler-configuration.md recommends."""


def _usual(pods: Sequence[OpenPod]) -> list[dict[str, Any]]:
    classes = Counter((pod.cpu, pod.gpus, pod.milli, tuple(sorted(set(pod.models)))) for pod in pods)
    return [{"pods": number, "spec": _spec(*asked)} for asked, number in sorted(classes.items())]


def _spec(cpu: int, gpus: int, milli: int, models: tuple[str, ...]) -> dict[str, Any]:
    requests: dict[str, str] = {"cpu": f"{cpu}m"}
    if gpus:
        requests |= {GPU_MILLI: str(milli)} | ({GPU_COUNT: str(gpus)} if gpus > 1 else {})
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if models:
        wanted = {"matchExpressions": [{"key": GPU_PRODUCT, "operator": "In", "values": list(models)}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]}}
        spec["affinity"] = {"nodeAffinity": required}
    return spec


@lru_cache
def _nodes(folder: Path) -> Cluster:
    return Cluster(
        tuple(
            make_node(f"n{at:05}", cpu=f"{node.cpu}m", memory=f"{node.memory}Mi", gpus=node.gpus, model=node.model)
            for at, node in enumerate(read_nodes(folder))
        )
    )


@lru_cache(maxsize=4)
def _pods(folder: Path, trace: str) -> list[OpenPod]:
    return read_pods(folder, trace)


def jobs(order: Sequence[OpenPod]) -> list[Job]:
    """One job per pod; those of one cycle arrive at one moment. Cycles grow, so that what is learnt is up to date."""
    found, cycle = [], 0
    for number, pod in enumerate(order):
        cycle += number == 2 ** (cycle + 1) - 1
        role = Role(
            cpu_milli=pod.cpu,
            memory_mib=pod.memory,
            gpus=pod.gpus,
            gpu_milli=pod.milli or 1000,
            gpu_models=tuple(sorted(set(pod.models))),
        )
        found.append(Job(name=f"pod-{number:05}", submit=float(cycle), run_seconds=None, roles=(role,)))
    return found


def run(folder: Path, policy: str, trace: str, seed: int, *, full: bool = False) -> dict[str, Any]:
    """One filling; ``full`` goes on to 130 % and reports how long the decisions took."""
    pods, cluster = _pods(folder, trace), with_node_order(_nodes(folder), seed)
    gpus = 1000 * cluster.gpu_total
    order = arrivals(pods, cluster.gpu_total, seed)
    load = np.cumsum([pod.demand for pod in order])
    if not full:
        order = order[: int(np.count_nonzero(np.round(100 * load / gpus) <= 100))]
    config, arriving = configured(policy, pods), jobs(order)
    began = process_time()
    found = World(cluster, arriving, config, Settings(seed=seed, retry=False)).run()
    seconds = process_time() - began
    if found.violations:
        raise RuntimeError(found.violations[0])
    held = np.array([0 if one.started is None else pod.demand for one, pod in zip(found.outcomes, order, strict=True)])
    arrived = np.round(100 * load[: len(order)] / gpus)
    allocated = 100 * np.cumsum(held) / gpus
    reading = arrived == arrived[arrived <= 100].max()
    return {
        "unallocated": round(float(100 - allocated[reading].mean()), 4),
        "arrivals": len(order),
        "placed": int(np.count_nonzero([one.started is not None for one in found.outcomes])),
        "cpuSeconds": round(seconds, 2),
        **({"at130": round(float(100 - allocated[-1]), 4)} if full else {}),
    }
