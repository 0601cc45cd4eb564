"""Estimated starts: how often the 80 % interval holds the true one, on generated and recorded workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from msgspec.structs import replace

from benchmarks.quality import backfill, philly
from benchmarks.quality.policies import EASY, GANG, KEEPING, PREDICATES, configuration
from benchmarks.quality.runner import Case, Only
from benchmarks.quality.tables import table
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import default_config
from unisono.simulator.clusters import Cluster, make_node
from unisono.simulator.forecast.forecast import Looked, calibrate
from unisono.simulator.metrics.durations import percentile
from unisono.simulator.workload.generate import Recipe, generate
from unisono.simulator.workload.job import Job, NodeShape
from unisono.simulator.world.settings import Settings

NODES, GPUS = 8, 8
GENERATED = {"diurnal": 600, "lublin": 500}
"""Jobs of each generated workload."""
LOAD = 0.95
VIRTUAL_CLUSTERS = {"ee9e8c": 18, "0e4a51": 7, "103959": 3, "7f04ca": 8}
"""Virtual clusters of Philly with so many nodes that about all of their GPU time is asked for."""
PARTS = 4
"""Parts of a processor log, which are looked at one by one."""
FUTURES = 9
MOMENTS = {"diurnal": 3, "lublin": 3, "philly": 20, "hpc2n": 60}
SIZES = ("1 gpu", "2-8 gpus", ">8 gpus")
_NAMES = {"1 gpu": "1", "2-8 gpus": "2 to 8", ">8 gpus": "more"}

Study = tuple[Cluster, list[Job], SchedulerConfig, Settings]


def _gpu_nodes(count: int) -> Cluster:
    return Cluster(tuple(make_node(f"node-{at:02}", cpu=96, memory="512Gi", gpus=GPUS) for at in range(count)))


def _study(traces: Path, workload: str, part: str) -> Study:
    """Cluster, jobs, configuration and settings."""
    if workload in GENERATED:
        recipe = Recipe(kind=workload, jobs=GENERATED[workload], gpus=NODES * GPUS, load=LOAD, seed=int(part))
        jobs = generate(recipe, NodeShape(gpus=GPUS))
        return _gpu_nodes(NODES), jobs, default_config(), Settings()
    if workload == "philly":
        jobs = [replace(job, estimate=None) for job in philly.jobs(traces)[0] if job.queue == part]
        jobs = [replace(job, queue="default") for job in jobs]
        return _gpu_nodes(VIRTUAL_CLUSTERS[part]), jobs, default_config(), Settings(run_times="none")
    jobs = backfill.jobs(traces, workload)
    length = len(jobs) // PARTS
    jobs = jobs[int(part) * length :][:length]
    cluster = Cluster((make_node("machine", cpu=backfill.LOGS[workload].processors, memory="1000Gi", pods=100_000),))
    return cluster, jobs, configuration("easy", KEEPING, [EASY, GANG], [PREDICATES]), Settings()


def run(traces: Path, workload: str, part: str) -> dict[str, Any]:
    """Look at a workload at several moments; counts and errors by size, so that parts can be put together."""
    cluster, jobs, config, settings = _study(traces, workload, part)
    began = process_time()
    found = calibrate(cluster, jobs, config, settings, moments=MOMENTS[workload], futures=FUTURES)
    by_size = {size: _counts([each for each in found.looked if each.size == size]) for size in SIZES}
    return {
        "estimates": sum(counts["told"] for counts in by_size.values()),
        "held": sum(counts["held"] for counts in by_size.values()),
        "bySize": by_size,
        "cpuSeconds": round(process_time() - began, 1),
    }


def _counts(looked: Sequence[Looked]) -> dict[str, Any]:
    told = [each for each in looked if not each.open]
    errors = [abs(each.said.median - each.true) for each in told if each.said.median is not None]
    limits = [abs(each.by_limits - each.true) for each in told if each.by_limits is not None]
    return {
        "told": len(told),
        "held": sum(each.held for each in told),
        "early": sum(each.said.low is not None and each.true < each.said.low and not each.held for each in told),
        "later": len(looked) - len(told),
        "laterRight": sum(each.held for each in looked if each.open),
        "errors": [round(error) for error in errors],
        "limits": [round(error) for error in limits],
        "waits": [round(each.true) for each in told],
    }


def parts(workload: str, seeds: int) -> list[str]:
    """What a workload is looked at in: seeds, virtual clusters, or parts of a log."""
    if workload == "philly":
        return list(VIRTUAL_CLUSTERS)
    return [str(number) for number in range(seeds if workload in GENERATED else PARTS)]


def cases(traces: Path, seeds: int, only: Only) -> list[Case]:
    """All workloads, or those that ``only`` names."""
    workloads = only.of(MOMENTS)
    return [
        Case("starts", {"workload": workload, "part": part}, run, (traces, workload, part))
        for workload in workloads
        for part in parts(workload, seeds)
    ]


def section(lines: Iterable[Mapping[str, Any]]) -> str:
    """The part of the page about estimated starts."""
    head = ["workload", "parts", "jobs of", "estimates", "in the interval", "earlier", "median error (s)"]
    head += ["by limits (s)", "median wait (s)", "only later, rightly"]
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        found.setdefault(line["workload"], []).append(line["bySize"])
    rows = []
    for workload in MOMENTS:
        of = found.get(workload, [])
        row = _row([each[size] for each in of for size in SIZES])
        rows += [[workload, str(len(of)), "all", *row]] if of and row else []
        for size in SIZES:
            row = _row([each[size] for each in of])
            rows += [["", "", _NAMES[size], *row]] if row else []
    return table(head, rows)


def _row(counts: Sequence[Mapping[str, Any]]) -> list[str]:
    total = {name: sum(each[name] for each in counts) for name in ("told", "held", "early", "later", "laterRight")}
    if not total["told"] + total["later"]:
        return []
    medians = [percentile([value for each in counts for value in each[name]], 50) for name in _LISTS]
    told = total["told"]
    return [
        str(told),
        f"{total['held'] / told:.0%}" if told else "",
        f"{total['early'] / told:.0%}" if told else "",
        *("" if value is None else f"{value:,.0f}" for value in medians),
        f"{total['laterRight']} of {total['later']}" if total["later"] else "",
    ]


_LISTS = ("errors", "limits", "waits")
