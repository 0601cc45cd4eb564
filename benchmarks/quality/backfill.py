"""Q8: processors of supercomputers, backfilled by stated or exact run times (Parallel Workloads Archive)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any, NamedTuple

from msgspec.structs import replace

from benchmarks.quality.policies import EASY, GANG, KEEPING, PREDICATES, SHORTEST, configuration
from benchmarks.quality.runner import Case, Only
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.metrics.durations import bounded_slowdown, first_wait
from unisono.simulator.workload.job import Job, NodeShape
from unisono.simulator.workload.traces import read_swf
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World


class Log(NamedTuple):
    """A log: its file, its processors, and a factor on the times between arrivals."""

    file: str
    processors: int
    pace: float


LOGS = {
    "hpc2n": Log("swf-hpc2n-subset/hpc2n-first3171.swf.gz", 240, 1.0),
    "nasa": Log("swf-nasa-ipsc-1993/NASA-iPSC-1993-3.1-cln.swf.gz", 128, 0.55),
}

BASELINES = {
    "easy": {"hpc2n": (3_558, 17.1), "nasa": (36_669, 524.0)},
    "fcfs": {"hpc2n": (5_628, 47.4), "nasa": (293_983, 6_754.0)},
    "sjf and easy": {"hpc2n": (2_267, 11.8), "nasa": (6_863, 26.0)},
}
"""Mean wait in seconds and mean bounded slowdown (10 s), by a simulator that counts processors, after its own rules."""

POLICIES = ("unisono", "easy")

_ORDERS = {"easy": [EASY], "unisono": SHORTEST}


def jobs(traces: Path, log: str) -> list[Job]:
    """The jobs of a log; each is one pod of a machine that has all processors, and memory does not count.

    As in the baselines a job needs the processors that it got, which are more than it asked for in 7 % of HPC2N's.
    """
    file, processors, pace = LOGS[log]
    found = []
    for job in read_swf(traces / file, NodeShape(cpus=processors), allocated=True):
        role = replace(job.roles[0], memory_mib=0)
        found.append(replace(job, submit=job.submit * pace, roles=(role,), estimate=job.estimate or job.run_seconds))
    return found


def run(traces: Path, policy: str, log: str) -> dict[str, Any]:
    """One simulation of a whole log."""
    config = configuration(policy, KEEPING, [*_ORDERS[policy], GANG], [PREDICATES])
    cluster = Cluster((make_node("machine", cpu=LOGS[log].processors, memory="1000Gi", pods=100_000),))
    given = jobs(traces, log)
    began = process_time()
    found = World(cluster, given, config, Settings(run_times="estimate")).run()
    waits = [wait for one in found.outcomes if (wait := first_wait(one)) is not None]
    slow = [value for one in found.outcomes if (value := bounded_slowdown(one)) is not None]
    return {
        "meanWait": round(fmean(waits)),
        "boundedSlowdown": round(fmean(slow), 2),
        "p99Wait": round(sorted(waits)[max(-(-99 * len(waits) // 100) - 1, 0)]),
        "jobs": len(waits),
        "cycles": found.cycles,
        "cpuSeconds": round(process_time() - began, 1),
    }


def cases(traces: Path, only: Only) -> list[Case]:
    """Both policies on all logs; ``only`` keeps the policies and logs that it names."""
    policies = only.of(POLICIES)
    logs = only.of(LOGS)
    return [
        Case("Q8", {"policy": policy, "log": log}, run, (traces, policy, log)) for log in logs for policy in policies
    ]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about Q8."""
    head = ["log", "policy", "mean wait (s)", "bounded slowdown", "p99 wait (s)"]
    rows = [[*head, *(f"{name}, baseline" for name in BASELINES)]]
    rows.append(["---"] * len(rows[0]))
    for line in sorted(lines, key=lambda line: (line["log"], line["policy"])):
        own = [
            line["log"],
            line["policy"],
            f"{line['meanWait']:,}",
            f"{line['boundedSlowdown']:,}",
            f"{line['p99Wait']:,}",
        ]
        known = (figures[line["log"]] for figures in BASELINES.values())
        rows.append([*own, *(f"{wait:,} / {slow:,}" for wait, slow in known)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"
