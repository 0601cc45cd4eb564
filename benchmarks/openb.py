"""``python -m benchmarks.openb FOLDER``: the filling experiment of "Beware of Fragmentation" (USENIX ATC 2023).

FOLDER holds Alibaba's openb trace. Pods arrive one after the other in a random order until they ask for 1.3 times the
cluster's GPUs; what does not fit is dropped, nothing ever leaves. Read is the share of GPUs that is not allocated when
all of them have been asked for.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unisono.api import core, kinds
from unisono.api.base import ObjectMeta
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from unisono.api.times import rfc3339
from unisono.cluster.state import ClusterState
from unisono.engine import run
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.gc_pauses import collector_paused

MILLI, COUNT, MODEL = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count", "alibabacloud.com/gpu-card-model"
START = 1_700_000_000.0

PUBLISHED = {"default": 4.77, "cpu250": 6.80, "gpushare100": 13.36, "multigpu50": 2.91, "gpuspec33": 12.16}
"""Percent of GPUs unallocated at 100 % arrived, mean of ten seeds, by trace (fragmentation gradient descent)."""


@dataclass(frozen=True, slots=True)
class OpenNode:
    """A node of the trace; ``cpu`` in milli-cores, ``memory`` in MiB."""

    cpu: int
    memory: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class OpenPod:
    """A pod of the trace; ``milli`` is asked of each of ``gpus`` cards, of one of ``models`` (empty: any)."""

    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def demand(self) -> int:
        """Thousandths of a card in all."""
        return self.gpus * self.milli


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path) as packed:
        return list(csv.DictReader(io.TextIOWrapper(packed, encoding="utf-8")))


def read_nodes(folder: Path) -> list[OpenNode]:
    """The 1,213 nodes with GPUs."""
    return [
        OpenNode(int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(folder / "openb_node_list_gpu_node.csv.gz")
    ]


def read_pods(folder: Path, trace: str) -> list[OpenPod]:
    """The pods of one list, in the order of their names."""
    pods = [
        OpenPod(
            row["name"],
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            int(row["num_gpu"]),
            int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
            tuple(model for model in (row.get("gpu_spec") or "").split("|") if model),
        )
        for row in _rows(folder / f"openb_pod_list_{trace}.csv.gz")
    ]
    return sorted(pods, key=lambda pod: pod.name)


def arrivals(pods: Sequence[OpenPod], gpus: int, seed: int, load: float = 1.3) -> list[OpenPod]:
    """The pods shuffled, and more drawn from them, until they ask for ``load`` times the GPUs.

    Lists that ask for more lose pods at random.
    """
    draw = random.Random(seed)
    order = list(pods)
    draw.shuffle(order)
    target, asked = load * 1000 * gpus, sum(pod.demand for pod in order)
    while asked > target:
        asked -= order.pop(draw.randrange(len(order))).demand
    while True:
        pod = draw.choice(pods)
        if asked + pod.milli > target:
            return order
        order.append(pod)
        asked += pod.demand


# ---- as objects


def configuration(*plugins: str) -> SchedulerConfig:
    """Cards by deviceshare, nodes by ``plugins`` alone."""
    listed = "".join(f"\n  - name: {name}" for name in ("predicates", "deviceshare", *plugins))
    return load_config(f"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:{listed}\n")


def cluster(nodes: Sequence[OpenNode], order: Sequence[OpenPod], seed: int) -> ClusterState:
    """Nodes named in a random order, because ties go to the first name; pods in the order of their arrival."""
    state = ClusterState()
    numbers = list(range(len(nodes)))
    random.Random(seed).shuffle(numbers)
    for position, node in zip(numbers, nodes, strict=True):
        state.apply("ADDED", kinds.NODES, _node(f"node-{position:05}", node))
    queue = Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))
    state.apply("ADDED", kinds.QUEUES, queue)
    for number, pod in enumerate(order):
        name, created = f"pod-{number:05}", rfc3339(START + number)
        meta = ObjectMeta(name=name, namespace="openb", uid=name, creation_timestamp=created)
        group = PodGroup(
            metadata=meta, spec=PodGroupSpec(min_member=1, queue="default"), status=PodGroupStatus(phase="Inqueue")
        )
        state.apply("ADDED", kinds.POD_GROUPS, group)
        state.apply("ADDED", kinds.PODS, _pod(name, created, pod))
    return state


def _node(name: str, node: OpenNode) -> core.Node:
    amounts: dict[str, str | int | float] = {
        "cpu": f"{node.cpu}m",
        "memory": f"{node.memory}Mi",
        "pods": "1001",
        MILLI: str(1000 * node.gpus),
        COUNT: str(node.gpus),
    }
    return core.Node(
        metadata=ObjectMeta(name=name, uid=name, labels={MODEL: node.model}),
        status=core.NodeStatus(allocatable=amounts),
    )


def _pod(name: str, created: str, pod: OpenPod) -> core.Pod:
    amounts: dict[str, str | int | float] = {"cpu": f"{pod.cpu}m", "memory": f"{pod.memory}Mi"}
    if pod.gpus:
        amounts |= {MILLI: str(pod.milli)} | ({COUNT: str(pod.gpus)} if pod.gpus > 1 else {})
    models = core.NodeSelectorRequirement(key=MODEL, operator="In", values=list(pod.models))
    terms = core.NodeSelector(node_selector_terms=[core.NodeSelectorTerm(match_expressions=[models])])
    affinity = core.Affinity(node_affinity=core.NodeAffinity(required_during_scheduling_ignored_during_execution=terms))
    return core.Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="openb",
            uid=name,
            creation_timestamp=created,
            annotations={"scheduling.k8s.io/group-name": name},
        ),
        spec=core.PodSpec(
            scheduler_name="volcano",
            affinity=affinity if pod.models else None,
            containers=[core.Container(name="main", resources=core.ResourceRequirements(requests=amounts))],
        ),
        status=core.PodStatus(phase="Pending"),
    )


def unallocated(nodes: Sequence[OpenNode], order: Sequence[OpenPod], config: SchedulerConfig, seed: int) -> float:
    """Percent of GPUs that are not allocated when all of the cluster's GPUs have been asked for."""
    gpus = 1000 * sum(node.gpus for node in nodes)
    asked, until = 0, 0
    while until < len(order) and round(100 * asked / gpus) <= 100:
        asked += order[until].demand
        until += 1
    arrived = order[:until]
    with collector_paused():
        decisions = run(cluster(nodes, arrived, seed).snapshot(), config, now=START + until)
    if decisions.violations:
        raise RuntimeError(decisions.violations[0].message)
    held = np.zeros(until, dtype=np.int64)
    for bind in decisions.binds:
        number = int(bind.pod.removeprefix("pod-"))
        held[number] = arrived[number].demand
    load = np.cumsum([pod.demand for pod in arrived])
    reading = np.round(100 * load / gpus) == 100
    return float(100 - 100 * (np.cumsum(held)[reading] / gpus).mean())


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.openb", description="GPUs left unallocated on the openb trace.")
    parser.add_argument("folder", type=Path, help="where the openb_*.csv.gz files are")
    parser.add_argument("--trace", action="append", help="pod list, such as default or gpuspec33; may be repeated")
    parser.add_argument("--plugin", action="append", help="plug-ins that score, joined by +; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="runs per trace; the paper has ten")
    parser.add_argument("--every", type=int, default=1, help="take each so many-th node only")
    options = parser.parse_args()
    nodes = read_nodes(options.folder)[:: options.every]
    print(f"{'trace':<14}{'plug-ins':<24}{'unallocated %':>14}{'published':>11}{'seconds':>9}")
    for trace in options.trace or list(PUBLISHED):
        pods = read_pods(options.folder, trace)
        for plugins in options.plugin or ["fragmentation", "binpack"]:
            started, found = time.perf_counter(), []
            for seed in range(42, 42 + options.seeds):
                order = arrivals(pods, sum(node.gpus for node in nodes), seed)
                found.append(unallocated(nodes, order, configuration(*plugins.split("+")), seed))
            spent = (time.perf_counter() - started) / options.seeds
            known = PUBLISHED.get(trace)
            published = "" if known is None else f"{known:.2f}"
            print(f"{trace:<14}{plugins:<24}{np.mean(found):>14.2f}{published:>11}{spent:>9.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
