"""Q5: two months of Microsoft's Philly on 72 nodes, pooled, and with a queue for each virtual cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

from msgspec.structs import replace

from benchmarks.quality.policies import EASY, GANG, KEEPING, PACKED_GPUS, PREDICATES, SHORTEST, configuration, plugin
from benchmarks.quality.runner import Case, Only
from benchmarks.quality.tables import table
from unisono.simulator.clusters import Cluster, make_node, make_queue
from unisono.simulator.files import rows
from unisono.simulator.metrics.durations import completion_time, first_wait, percentile
from unisono.simulator.metrics.summary import share_deviation
from unisono.simulator.workload.job import Job, NodeShape
from unisono.simulator.workload.traces import read_philly, seconds_of
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

FOLDER = "philly-sia"
TRACE, QUEUES = "philly.csv.gz", "philly_vc_nodes_helios.csv"
NODES, GPUS = 72, 8
_DAY = 86_400.0
FIRST_DAY, DAYS = 1_506_816_000.0, 61
"""Midnight of 1 October 2017, and days until the end of November."""

BASELINES = {"fifo": (102_092, 90_612), "easy": (22_922, 11_441), "sjf": (15_155, 3_674), "srsf": (11_869, 30)}
"""Mean completion time and mean first wait in seconds, by a simulator of the published rules; `srsf` evicts."""
BOUND = 11_481
"""The mean run time."""

POLICIES = {
    "easy": ([EASY, GANG], [PREDICATES, PACKED_GPUS]),
    "unisono": ([*SHORTEST, GANG], [PREDICATES, PACKED_GPUS]),
    "queues": ([EASY, GANG], [PREDICATES, plugin("proportion"), PACKED_GPUS]),
}
"""Tiers; ``queues`` divides the GPUs between virtual clusters by their weights, the others pool all jobs."""


@lru_cache(maxsize=1)
def jobs(traces: Path) -> tuple[list[Job], dict[str, int]]:
    """Jobs of the window and the virtual clusters, with the nodes of each."""
    folder = traces / FOLDER
    nodes = {row.text("vc"): row.whole("node num") for row in rows(folder / QUEUES, ("vc", "node num"))}
    first = min(seconds_of(row, "timestamp") for row in rows(folder / TRACE, ("timestamp",)))
    begin, end = FIRST_DAY - first, FIRST_DAY + DAYS * _DAY - first
    found = [
        job for job in read_philly(folder / TRACE, NodeShape(GPUS)) if begin <= job.submit < end and job.queue in nodes
    ]
    return [replace(job, submit=job.submit - begin, estimate=job.run_seconds) for job in found], nodes


def run(traces: Path, policy: str) -> dict[str, Any]:
    """One simulation of the two months."""
    given, weights = jobs(traces)
    queues = tuple(make_queue(name, weight) for name, weight in weights.items())
    if policy != "queues":
        given, queues = [replace(job, queue="default", user="") for job in given], ()
    nodes = (make_node(f"node-{at:03}", cpu=128, memory="1000Gi", gpus=GPUS) for at in range(NODES))
    config = configuration(policy, KEEPING, *POLICIES[policy])
    began = process_time()
    found = World(Cluster(tuple(nodes), queues), given, config, Settings(run_times="exact")).run()
    seconds = process_time() - began
    return {
        **figures(found),
        "cycles": found.cycles,
        "cpuSeconds": round(seconds, 1),
        "jobsPerMinute": round(60 * len(given) / seconds),
    }


def figures(found: Run) -> dict[str, Any]:
    """Times in seconds; shares of queues where there are several."""
    times = [value for one in found.outcomes if (value := completion_time(one)) is not None]
    waits = [value for one in found.outcomes if (value := first_wait(one)) is not None]
    shares = share_deviation(found)
    by_queue: dict[str, list[float]] = {}
    for one in found.outcomes:
        by_queue.setdefault(one.job.queue, []).append(first_wait(one) or 0.0)
    told = {
        "meanJct": round(fmean(times)),
        "meanWait": round(fmean(waits)),
        "p99Wait": round(percentile(waits, 99) or 0.0),
        "unfinished": len(found.outcomes) - len(times),
    }
    if shares is None:
        return told
    mean_waits = {name: round(fmean(values)) for name, values in sorted(by_queue.items())}
    return {
        **told,
        "shareDeviation": round(shares.deviation, 4),
        "worstShortfall": round(shares.worst, 4),
        "waitByQueue": mean_waits,
    }


def cases(traces: Path, only: Only) -> list[Case]:
    """All policies, or those that ``only`` names."""
    policies = only.of(POLICIES)
    return [Case("Q5", {"policy": policy}, run, (traces, policy)) for policy in policies]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about Q5."""
    head = ["policy", "mean JCT", "mean wait", "p99 wait", "share deviation", "worst shortfall", "jobs a minute"]
    found = []
    for line in lines:
        shares = (
            [f"{line['shareDeviation']:.1%}", f"{line['worstShortfall']:.1%}"] if "shareDeviation" in line else ["", ""]
        )
        times = [f"{line[name]:,}" for name in ("meanJct", "meanWait", "p99Wait")]
        found.append([line["policy"], *times, *shares, f"{line['jobsPerMinute']:,}"])
    for name, (mean, wait) in BASELINES.items():
        found.append([f"{name}, baseline", f"{mean:,}", f"{wait:,}", "", "", "", ""])
    return table(head, [*found, ["bound", f"{BOUND:,}", "", "", "", "", ""]])
