"""Q4: finish-time fairness of 120 training jobs on 32 GPUs (Shockwave, NSDI 2023), with rigid run times.

Published figures stand for jobs that change their batch sizes, with throughputs measured by job and GPU type; here a
job runs as long as the trace says. They show where the policies stand; they are no figures to reach to the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

from msgspec.structs import replace

from benchmarks.quality.policies import (
    EASY,
    EVICTING,
    GANG_MAY_LEAVE,
    KEEPING,
    PACKED_GPUS,
    PREDICATES,
    configuration,
    plugin,
)
from benchmarks.quality.runner import Case, Only
from benchmarks.quality.tables import table
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.metrics.durations import completion_time, jain, percentile
from unisono.simulator.metrics.summary import SLACK
from unisono.simulator.workload.job import NodeShape
from unisono.simulator.workload.traces import read_shockwave
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

TRACE = Path("shockwave-2023") / "120_0.2_5_100_40_25_0,0.5,0.5_0.6,0.3,0.09,0.01_multigpu_dynamic.trace.gz"
NODES, GPUS = 8, 4
ROUND = 120.0
"""Seconds between two cycles while jobs wait, as in the publication."""

PUBLISHED = {
    "shockwave": (24_197, 9_958, 22_575, 1.78, 0.05, 0.907),
    "finish-time fairness (Themis)": (31_929, 11_302, 26_606, 3.44, 0.225, 0.776),
    "max-min fairness (Gavel)": (33_208, 11_274, 25_885, 2.95, 0.25, 0.802),
    "AlloX": (32_489, 9_926, 20_567, 4.96, 0.275, 0.529),
    "Gandiva-fair": (32_367, 12_574, 27_216, 1.85, 0.517, 0.898),
}
"""Makespan, mean and p99 completion time in seconds, worst rho, share of jobs above 1.05, Jain's index of rho."""

_ATTAINED = plugin("service-order", {"service-order.by": "attained-service"})
_TURNS = plugin(
    "service-order",
    {"service-order.firstLevel": 1200, "service-order.levelFactor": 3.0, "service-order.inLevel": "turn"},
)
_REMAINING = plugin("service-order", {"service-order.by": "remaining-service"})
POLICIES = {
    "unisono": (EVICTING, _ATTAINED, "none"),
    "turns": (EVICTING, _TURNS, "none"),
    "easy": (KEEPING, EASY, "exact"),
    "srsf": (EVICTING, _REMAINING, "exact"),
}
"""Actions, order, and what is told of run times; ``unisono`` and ``turns`` know nothing of them."""


def run(traces: Path, policy: str) -> dict[str, Any]:
    """One simulation; evicted jobs lose nothing."""
    given = [replace(job, checkpoint=0.0, deadline=None) for job in read_shockwave(traces / TRACE, NodeShape(GPUS))]
    cluster = Cluster(tuple(make_node(f"node-{at}", cpu=64, memory="1000Gi", gpus=GPUS) for at in range(NODES)))
    actions, order, told = POLICIES[policy]
    config = configuration(policy, actions, [order, GANG_MAY_LEAVE], [PREDICATES, PACKED_GPUS])
    began = process_time()
    found = World(cluster, given, config, Settings(run_times=told, recheck=ROUND if told == "none" else 0.0)).run()
    return {**figures(found), "cpuSeconds": round(process_time() - began, 1)}


def figures(found: Run) -> dict[str, Any]:
    """Times in seconds; rho is completion time over run time x jobs / GPUs, the publication's static form."""
    share = max(len(found.outcomes) / found.cluster.gpu_total, 1.0)
    times, rhos = [], []
    for one in found.outcomes:
        taken = completion_time(one)
        if taken is not None and one.job.run_seconds:
            times.append(taken)
            rhos.append(taken / (one.job.run_seconds * share))
    first = min(one.job.submit for one in found.outcomes)
    return {
        "makespan": round(max(one.ended for one in found.outcomes if one.ended is not None) - first),
        "meanJct": round(fmean(times)),
        "p99Jct": round(percentile(times, 99) or 0.0),
        "worstRho": round(max(rhos), 3),
        "unfair": round(fmean(rho > SLACK for rho in rhos), 4),
        "jain": round(jain(rhos) or 0.0, 4),
        "evictions": len(found.evictions),
        "unfinished": len(found.outcomes) - len(times),
    }


def cases(traces: Path, only: Only) -> list[Case]:
    """All policies, or those that ``only`` names."""
    policies = only.of(POLICIES)
    return [Case("Q4", {"policy": policy}, run, (traces, policy)) for policy in policies]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about Q4."""
    head = ["policy", "makespan (s)", "mean JCT (s)", "p99 JCT (s)", "worst rho", "unfair", "Jain of rho"]
    names = ("makespan", "meanJct", "p99Jct", "worstRho", "unfair", "jain")
    rows = [(line["policy"], tuple(line[name] for name in names)) for line in lines]
    rows += [(f"{name}, published", values) for name, values in PUBLISHED.items()]
    return table(head, [[name, *_told(values)] for name, values in rows])


def _told(values: Sequence[float]) -> list[str]:
    seconds = [f"{value:,}" for value in values[:3]]
    return [*seconds, f"{values[3]:.2f}", f"{values[4]:.1%}", f"{values[5]:.3f}"]
