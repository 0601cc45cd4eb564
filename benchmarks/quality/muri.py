"""Q2 and Q3: gangs of a 64-GPU cluster, with known and with unknown run times (Muri, SIGCOMM 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.quality.policies import EVICTING, GANG_MAY_LEAVE, PACKED_GPUS, PREDICATES, configuration, plugin
from benchmarks.quality.runner import Case, Only
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.workload.job import Job, NodeShape
from unisono.simulator.workload.traces import read_muri
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

FOLDER = "muri-2022"
TRACES = ("trace1", "trace1_pr", "trace3", "trace3_pr")
NODES, GPUS = 8, 8
CLUSTER = Cluster(tuple(make_node(f"node-{at}", cpu=128, memory="1000Gi", gpus=GPUS) for at in range(NODES)))

PUBLISHED = {
    "srtf": dict(zip(TRACES, (1_370_603, 2_303_544, 193_082, 844_395), strict=True)),
    "srsf": dict(zip(TRACES, (980_141, 1_801_860, 185_022, 798_058), strict=True)),
    "tiresias-l": dict(zip(TRACES, (3_330_371, 6_921_683, 347_213, 2_213_110), strict=True)),
    "themis": dict(zip(TRACES, (1_823_179, 3_314_304, 397_059, 1_502_768), strict=True)),
}
"""Mean job completion time in seconds, by policy and trace."""

PUBLISHED_P99 = {
    "srtf": {"trace1": 16_647_148, "trace3": 4_538_891},
    "srsf": {"trace1": 15_529_913, "trace3": 4_189_699},
    "tiresias-l": {"trace1": 14_739_852, "trace3": 4_983_397},
    "themis": {"trace1": 17_159_064, "trace3": 2_967_333},
}

BOUND = dict(zip(TRACES, (694_237, 1_657_746, 115_478, 761_999), strict=True))
"""Least mean job completion time of any scheduler, as `unisono.simulator.bounds` works it out."""

POLICIES = {"Q2": ("srsf", "srtf", "srtf-one-machine", "tiresias-l"), "Q3": ("las",)}

RULES = {
    "srtf": "remaining-time",
    "srtf-one-machine": "remaining-time",
    "srsf": "remaining-service",
    "las": "attained-service",
    "sjf": "time",
}
_LEVELS = (3250.0, 7200.0)
_TIRESIAS = {"service-order.levels": list(_LEVELS), "service-order.inLevel": "line", "service-order.wideLevel": -1}
"""The three queues of the published simulator, each with its line."""
_ONE_MACHINE = Cluster((make_node("node", cpu=1024, memory="8000Gi", gpus=NODES * GPUS),))
_COUNTED = ("srtf-one-machine", "tiresias-l")
"""Policies for which GPUs are counted as if they were one machine.

Tiresias-L knows no nodes there. `srtf-one-machine` shows what SRTF is where all jobs are placed again at each event:
that comes to the same because all sizes are powers of two.
"""

_SETTINGS = {"las": Settings(run_times="none", recheck=3600.0), "tiresias-l": Settings(run_times="none", marks=_LEVELS)}


def configured(policy: str) -> SchedulerConfig:
    """A scheduler configuration: jobs in the order of a policy, with evictions, on the fullest nodes."""
    more = _TIRESIAS if policy == "tiresias-l" else {}
    order = plugin("service-order", {"service-order.by": RULES.get(policy, "attained-service"), **more})
    return configuration(policy, EVICTING, [order, GANG_MAY_LEAVE], [PREDICATES, PACKED_GPUS])


def cases(suite: str, traces: Path, only: Only) -> list[Case]:
    """The policies of a suite on all published traces; ``only`` may name others of the folder."""
    folder = traces / FOLDER
    found = sorted(file.name.removesuffix(".csv.gz") for file in folder.glob("trace*.csv.gz"))
    policies, chosen = only.of(POLICIES[suite]), only.of(TRACES, besides=found)
    return [
        Case(suite, {"policy": policy, "trace": trace}, run, (folder, policy, trace))
        for trace in chosen
        for policy in policies
    ]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about a suite: mean and p99 in seconds."""
    head = ["trace", "policy", "mean JCT", "p99 JCT", "evictions"]
    head += [*(f"{name}, published" for name in PUBLISHED), "bound", "gap"]
    rows = [head, ["---"] * len(head)]
    order = {trace: at for at, trace in enumerate(TRACES)}
    for line in sorted(lines, key=lambda line: (order.get(line["trace"], len(order)), line["trace"], line["policy"])):
        trace, mean = line["trace"], line["meanJct"]
        row = [trace, line["policy"], f"{mean:,}", f"{line['p99Jct']:,}", f"{line['evictions']:,}"]
        for name, figures_of in PUBLISHED.items():
            known, p99 = figures_of.get(trace), PUBLISHED_P99[name].get(trace)
            row.append((f"{known:,}" if known else "") + (f" (p99 {p99:,})" if p99 else ""))
        bound = BOUND.get(trace)
        rows.append([*row, *([f"{bound:,}", f"{mean / bound - 1:.0%}"] if bound else ["", ""])])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def jobs(folder: Path, trace: str, gpus: int = GPUS) -> list[Job]:
    """Jobs that lose nothing when they are evicted; a job of several nodes takes whole ones, as in the publication."""
    shape = NodeShape(gpus=gpus)
    return [_resumable(job) for job in read_muri(folder / f"{trace}.csv.gz", shape)]


def _resumable(job: Job) -> Job:
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return Job(**{**fields, "checkpoint": 0.0})


def run(folder: Path, policy: str, trace: str) -> dict[str, Any]:
    """One simulation; without run times there are cycles in which jobs move on to later levels."""
    counted = policy in _COUNTED
    cluster, given = (_ONE_MACHINE if counted else CLUSTER), jobs(folder, trace, NODES * GPUS if counted else GPUS)
    config = configured(policy)
    began = process_time()
    found = World(cluster, given, config, _SETTINGS.get(policy, Settings(run_times="exact"))).run()
    return {**figures(found), "cpuSeconds": round(process_time() - began, 1)}


def figures(found: Run) -> dict[str, Any]:
    """Job completion times in seconds."""
    times = sorted(one.ended - one.job.submit for one in found.outcomes if one.ended is not None)
    end = max(one.ended for one in found.outcomes if one.ended is not None)
    return {
        "meanJct": round(sum(times) / len(times)),
        "p99Jct": round(times[max(-(-99 * len(times) // 100) - 1, 0)]),
        "makespan": round(end - min(one.job.submit for one in found.outcomes)),
        "evictions": len(found.evictions),
        "cycles": found.cycles,
        "unfinished": len(found.outcomes) - len(times),
    }
