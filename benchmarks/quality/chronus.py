"""Q6: what preemption costs when jobs with deadlines displace best-effort jobs (Chronus, SoCC 2021)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, NamedTuple

from benchmarks.quality.policies import EVICTING, GANG_MAY_LEAVE, PACKED_GPUS, PREDICATES, Plugin, configuration, plugin
from benchmarks.quality.runner import Case, Only
from benchmarks.quality.tables import table
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.metrics.durations import completion_time, deadlines
from unisono.simulator.metrics.usage import waste
from unisono.simulator.workload.job import NodeShape
from unisono.simulator.workload.traces import HIGH, read_chronus
from unisono.simulator.world.objects import priority_class
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

FOLDER = "chronus-philly"
TRACES = ("MIX1", "MIX2")
NODES, GPUS = (125, 150), 8


class Baseline(NamedTuple):
    """What a simulator that counts GPUs, without nodes, finds; minutes and GPU-hours.

    Attributes:
        newest, least: GPU-hours lost with the newest victims first, and with those that lose least.
        high, best: mean completion time of strict and soft jobs, and of best-effort jobs with the least loss.
        met: share of the first deadlines that are met.
    """

    newest: int
    least: int
    high: int
    best: int
    met: float


BASELINES = {
    ("MIX1", 125): Baseline(30_972, 30_218, 281, 5_761, 0.881),
    ("MIX1", 150): Baseline(45_765, 45_745, 260, 3_136, 0.995),
    ("MIX2", 125): Baseline(7_941, 7_947, 943, 6_974, 0.393),
    ("MIX2", 150): Baseline(19_903, 19_739, 332, 2_468, 0.743),
}

HEADROOM = {"eviction-guard.headroom": 0.12, "eviction-guard.headroom.priorityClasses": {priority_class(HIGH): 0}}
"""Best-effort jobs leave 12 % of the GPUs to strict and soft ones."""
POLICIES = {"least-loss": plugin("eviction-guard"), "headroom": plugin("eviction-guard", HEADROOM)}


def _tiers(policy: str) -> tuple[list[Plugin], ...]:
    return [plugin("priority"), GANG_MAY_LEAVE, POLICIES[policy]], [PREDICATES, PACKED_GPUS]


def run(traces: Path, policy: str, trace: str, nodes: int) -> dict[str, Any]:
    """One simulation; an evicted job starts from zero."""
    given = read_chronus(traces / FOLDER / f"trace_job_Philly_{trace}.csv.gz", NodeShape(GPUS))
    cluster = Cluster(tuple(make_node(f"node-{at:03}", cpu=128, memory="1000Gi", gpus=GPUS) for at in range(nodes)))
    began = process_time()
    found = World(cluster, given, configuration(policy, EVICTING, *_tiers(policy)), Settings(run_times="none")).run()
    return {**figures(found), "cycles": found.cycles, "cpuSeconds": round(process_time() - began, 1)}


def figures(found: Run) -> dict[str, Any]:
    """Losses in GPU-hours, completion times in minutes."""
    lost, met = waste(found), deadlines(found)
    minutes: dict[bool, list[float]] = {True: [], False: []}
    for one in found.outcomes:
        taken = completion_time(one)
        if taken is not None:
            minutes[one.job.priority > 0].append(taken / 60)
    return {
        "lostGpuHours": round(lost["lostGpuHours"]),
        "lostShare": round(lost["lostShare"] or 0.0, 4),
        "evictions": sum(stretch.cause == "evicted" for one in found.outcomes for stretch in one.stretches),
        "futile": lost["futile"],
        "overEvictedGpus": lost["overEvictedGpus"],
        "highJct": round(fmean(minutes[True]), 1) if minutes[True] else None,
        "bestEffortJct": round(fmean(minutes[False]), 1) if minutes[False] else None,
        "deadlinesMet": round(met["met"], 4) if met else None,
        "unfinished": sum(one.ended is None for one in found.outcomes),
    }


def cases(traces: Path, only: Only) -> list[Case]:
    """Both mixes on both clusters; ``only`` keeps the policies, mixes and sizes (``MIX1``, ``150``) that it names."""
    policies = only.of(POLICIES)
    mixes = only.of(TRACES)
    sizes = only.of(NODES)
    return [
        Case("Q6", {"policy": policy, "trace": trace, "nodes": size}, run, (traces, policy, trace, size))
        for trace in mixes
        for size in sizes
        for policy in policies
    ]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about Q6; baselines in brackets."""
    head = [
        "trace", "GPUs", "policy", "lost GPU-hours (newest first / least loss)", "share of the useful", "jobs evicted",
    ]  # fmt: skip
    head += ["futile", "over-evicted GPUs", "JCT, strict and soft (min)", "JCT, best effort (min)", "deadlines met"]
    found = []
    for line in sorted(lines, key=lambda line: (line["trace"], line["nodes"], [*POLICIES].index(line["policy"]))):
        base = BASELINES[line["trace"], line["nodes"]]
        found.append(
            [
                line["trace"],
                f"{line['nodes'] * GPUS:,}",
                line["policy"],
                f"{line['lostGpuHours']:,} ({base.newest:,} / {base.least:,})",
                f"{line['lostShare']:.1%}",
                f"{line['evictions']:,}",
                f"{line['futile']:,}",
                f"{line['overEvictedGpus']:,.0f}",
                f"{line['highJct']:,.0f} ({base.high:,})",
                f"{line['bestEffortJct']:,.0f} ({base.best:,})",
                f"{line['deadlinesMet']:.1%} ({base.met:.1%})",
            ]
        )
    return table(head, found)
