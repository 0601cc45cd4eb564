"""How long it takes to simulate 100,000 generated jobs like those of Philly on 500 nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from time import process_time
from typing import Any

from benchmarks.quality.philly import BOUND, POLICIES
from benchmarks.quality.policies import KEEPING, configuration
from benchmarks.quality.runner import Case, Only
from benchmarks.quality.tables import table
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.metrics.durations import completion_time, first_wait
from unisono.simulator.workload.generate import Recipe, generate
from unisono.simulator.workload.job import NodeShape
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

NODES, GPUS, JOBS = 500, 8, 100_000
RECIPE = Recipe("diurnal", JOBS, NODES * GPUS, load=0.744, mean_seconds=float(BOUND), users=200, seed=1)
"""Sizes are about those of Philly, and run times have its mean; users state limits above them."""
NAMES = ("easy",)


def run(policy: str, recipe: Recipe = RECIPE) -> dict[str, Any]:
    """One simulation of generated jobs."""
    given = generate(recipe, NodeShape(GPUS))
    nodes = (make_node(f"node-{at:03}", cpu=128, memory="1000Gi", gpus=GPUS) for at in range(NODES))
    config = configuration(policy, KEEPING, *POLICIES[policy])
    began = process_time()
    found = World(Cluster(tuple(nodes), ()), given, config, Settings(run_times="estimate")).run()
    seconds = process_time() - began
    times = [value for one in found.outcomes if (value := completion_time(one)) is not None]
    waits = [value for one in found.outcomes if (value := first_wait(one)) is not None]
    return {
        "jobs": len(given),
        "nodes": NODES,
        "meanJct": round(fmean(times)),
        "meanWait": round(fmean(waits)),
        "unfinished": len(given) - len(times),
        "cycles": found.cycles,
        "cpuSeconds": round(seconds, 1),
        "jobsPerMinute": round(60 * len(given) / seconds),
    }


def cases(only: Only) -> list[Case]:
    """The policies, or those that ``only`` names."""
    names = only.of(NAMES)
    return [Case("scale", {"policy": name}, run, (name,)) for name in names]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about it."""
    head = ["policy", "jobs", "nodes", "mean JCT (s)", "mean wait (s)", "cycles", "CPU (s)", "jobs a minute"]
    names = ("jobs", "nodes", "meanJct", "meanWait", "cycles", "cpuSeconds", "jobsPerMinute")
    return table(head, [[line["policy"], *(f"{line[name]:,}" for name in names)] for line in lines])
