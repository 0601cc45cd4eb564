"""Q7: how far apart the hosts of gangs lie in a network of three tiers (Alibaba's Lingjun map, SIGCOMM 2024)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from statistics import fmean
from time import process_time
from typing import Any

from benchmarks.quality.policies import EASY, GANG, KEEPING, PACKED_GPUS, PREDICATES, configuration, plugin
from benchmarks.quality.runner import Case, Only
from benchmarks.quality.tables import table
from unisono.simulator.bounds import least_cost
from unisono.simulator.cluster_files import read_switches
from unisono.simulator.clusters import Cluster
from unisono.simulator.metrics.durations import first_wait
from unisono.simulator.metrics.usage import lca_cost
from unisono.simulator.workload.job import Job, Role
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

MAP = Path("alibaba-lingjun-topo-2023") / "topo.csv.gz"
GPUS = 8
LOADS = (0.6, 0.8, 0.9)
SIZES, WEIGHTS = (1, 2, 4, 8, 16, 32, 64), (40, 20, 15, 12, 8, 4, 1)
GANGS, WARM_UP = 4_000, 500
_SECONDS = 3_600.0

BASELINES = {"random": (5.28, 5.27, 5.26), "list order": (5.26, 5.27, 5.26), "greedy": (2.285, 2.352, 2.507)}
"""Mean cost by load. `greedy` takes the tightest leaf, else the tightest pod and in it the fullest leaves."""
LEAST = 2.268
"""The same gangs on an empty cluster."""

_AWARE = plugin("network-topology-aware", {"weight": 10, "hypernode.binpack.resources": "nvidia.com/gpu"})
POLICIES = {
    "unisono": ([GANG, EASY], [PREDICATES, _AWARE, PACKED_GPUS]),
    "off": ([GANG, EASY], [PREDICATES, PACKED_GPUS]),
}
"""Tiers."""


def gangs(load: float, seed: int, hosts: int, *, soft: bool, count: int = GANGS) -> list[Job]:
    """Gangs of whole hosts: Poisson arrivals, exponential run times; ``load`` is the share of hosts that they need."""
    draw = Random(f"lingjun {load} {seed}")  # nosec B311 # draws of a simulation, no secret
    mean = sum(size * weight for size, weight in zip(SIZES, WEIGHTS, strict=True)) / sum(WEIGHTS)
    at, found = 0.0, []
    for number in range(count):
        at += draw.expovariate(load * hosts / (mean * _SECONDS))
        size = min(draw.choices(SIZES, WEIGHTS)[0], hosts)
        role = Role(count=size, gpus=GPUS)
        tier = 3 if soft and size > 1 else None
        run_seconds = draw.expovariate(1 / _SECONDS)
        found.append(
            Job(
                name=f"gang-{number}",
                submit=at,
                run_seconds=run_seconds,
                roles=(role,),
                topology_tier=tier,
                topology_hard=False,
            )
        )
    return found


@lru_cache(maxsize=1)
def _cluster(file: Path) -> Cluster:
    return read_switches(file, gpus=GPUS)


def greedy(given: list[Job], paths: Mapping[str, Sequence[str]], warm_up: int) -> dict[str, float]:
    """The same gangs first come first served, blocking: the tightest leaf, else the tightest pod's emptiest leaves."""
    free: dict[str, dict[str, list[str]]] = {}
    for host, path in paths.items():
        free.setdefault(path[1], {}).setdefault(path[0], []).append(host)
    now, costs, waits, ends = 0.0, list[float](), list[float](), list[tuple[float, int, list[str]]]()
    for number, job in enumerate(given):
        size, now = job.pods, max(now, job.submit)
        while (ends and ends[0][0] <= now) or sum(_free(pod) for pod in free.values()) < size:
            at, _, hosts = heapq.heappop(ends)
            now = max(now, at)
            for host in hosts:
                free[paths[host][1]][paths[host][0]].append(host)
        hosts = _taken(free, size)
        heapq.heappush(ends, (now + (job.run_seconds or 0.0), number, hosts))
        if number >= warm_up:
            waits.append(now - job.submit)
            costs += [lca_cost([paths[host] for host in hosts])] if size > 1 else []
    return {"greedyCost": round(fmean(costs), 4), "greedyWait": round(fmean(waits), 1)}


def _free(pod: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, pod.values()))


def _taken(free: Mapping[str, Mapping[str, list[str]]], size: int) -> list[str]:
    leaves = [leaf for pod in free.values() for leaf in pod.values()]
    fitting = [leaf for leaf in leaves if len(leaf) >= size]
    if fitting:
        order = [min(fitting, key=len)]
    else:
        pods = [pod for pod in free.values() if _free(pod) >= size]
        chosen = [min(pods, key=_free)] if pods else sorted(free.values(), key=_free, reverse=True)
        order = [leaf for pod in chosen for leaf in sorted(pod.values(), key=len, reverse=True)]
    hosts: list[str] = []
    for leaf in order:
        while leaf and len(hosts) < size:
            hosts.append(leaf.pop())
    return hosts


def run(
    traces: Path, policy: str, load: float, seed: int, count: int = GANGS, warm_up: int = WARM_UP
) -> dict[str, Any]:
    """One simulation; the first gangs, and gangs of one host, do not count."""
    cluster = _cluster(traces / MAP)
    given = gangs(load, seed, len(cluster.nodes), soft=policy == "unisono", count=count)
    began = process_time()
    found = World(
        cluster, given, configuration(policy, KEEPING, *POLICIES[policy]), Settings(seed=seed, run_times="none")
    ).run()
    seconds = round(process_time() - began, 1)
    return {**figures(found, warm_up), **greedy(given, cluster.paths, warm_up), "cpuSeconds": seconds}


def figures(found: Run, warm_up: int) -> dict[str, Any]:
    """Mean cost of gangs, beside the least of the empty cluster; waits in seconds, of all gangs."""
    paths = found.cluster.paths
    least: dict[int, float] = {}
    costs, lows, across = [], [], 0
    for one in found.outcomes[warm_up:]:
        for stretch in one.stretches[:1]:
            size = len(stretch.nodes)
            if size < 2:
                continue
            hosts = [paths[found.node_names[number]] for number in stretch.nodes]
            if size not in least:
                least[size] = least_cost(paths, size) / (size * (size - 1) / 2)
            costs.append(lca_cost(hosts))
            lows.append(least[size])
            across += len({path[1] for path in hosts}) > 1
    return {
        "cost": round(fmean(costs), 4),
        "least": round(fmean(lows), 4),
        "atLeast": round(fmean(cost <= low + 1e-9 for cost, low in zip(costs, lows, strict=True)), 4),
        "acrossPods": round(across / len(costs), 4),
        "meanWait": round(fmean(first_wait(one) or 0.0 for one in found.outcomes[warm_up:]), 1),
        "gangs": len(costs),
    }


def cases(traces: Path, seeds: int, only: Only) -> list[Case]:
    """Both policies at three loads; at most three seeds, as the baselines have."""
    policies = only.of(POLICIES)
    loads = only.of(LOADS)
    return [
        Case("Q7", {"policy": policy, "load": load, "seed": seed}, run, (traces, policy, load, seed))
        for seed in range(min(seeds, 3))
        for load in loads
        for policy in policies
    ]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about Q7."""
    groups: dict[tuple[float, str], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["load"], line["policy"]), []).append(line)
    head = ["load", "policy", "mean cost", "greedy, same gangs", *(f"{name}, baseline" for name in BASELINES)]
    head += ["least", "at the least", "across pods", "mean wait (greedy; s)", "seeds"]
    found = []
    for (load, policy), own in sorted(groups.items()):
        means = {
            name: fmean(line[name] for line in own) for name in ("cost", "greedyCost", "least", "atLeast", "acrossPods")
        }
        known = [f"{row[LOADS.index(load)]:.3f}" for row in BASELINES.values()]
        shares = [f"{means['atLeast']:.1%}", f"{means['acrossPods']:.1%}"]
        waits = [fmean(line[name] for line in own) for name in ("meanWait", "greedyWait")]
        wait = f"{waits[0]:,.1f} ({waits[1]:,.1f})"
        costs = [f"{means['cost']:.3f}", f"{means['greedyCost']:.3f}"]
        found.append([f"{load}", policy, *costs, *known, f"{means['least']:.3f}", *shares, wait, f"{len(own)}"])
    return table(head, found)
