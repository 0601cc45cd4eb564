"""What evictions and failures cost."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from unisono.simulator.world.outcome import Run


def waste(run: Run) -> dict[str, Any]:
    """Evictions, and the GPU time lost by them and by failures.

    Attributes:
        evictions: pods that the scheduler evicted.
        per1000Jobs: evictions per 1,000 jobs.
        jobsEvicted: share of jobs evicted at least once.
        lostGpuHours: sum over interruptions of GPUs times (progress since the last checkpoint, or since the start),
            plus GPUs times the overhead of starting again.
        lostShare: those as a share of the useful GPU hours.
        byCause: GPU hours lost by evictions and by failures.
        futile: evictions for a job that did not start within a second afterwards.
        overEvictedGpus: GPUs freed by evictions beyond what their beneficiary, starting within a second, asked for.

    """
    lost: defaultdict[str, float] = defaultdict(float)
    useful = 0.0
    for outcome in run.outcomes:
        before = ""
        for stretch in outcome.stretches:
            gpus = stretch.gpu_milli / 1000
            if before:
                lost[before] += gpus * stretch.overhead / 3600
            lost[stretch.cause] += gpus * stretch.lost / 3600
            useful += gpus * max(0.0, stretch.end - stretch.start - stretch.lost - stretch.overhead) / 3600
            before = stretch.cause if stretch.cause not in ("resized", "completed") else ""
    total = sum(lost.values())
    jobs = max(len(run.outcomes), 1)
    futile, over = _aims(run)
    return {
        "evictions": len(run.evictions),
        "per1000Jobs": 1000 * len(run.evictions) / jobs,
        "jobsEvicted": sum(outcome.evictions > 0 for outcome in run.outcomes) / jobs,
        "lostGpuHours": total,
        "lostShare": total / useful if useful else None,
        "byCause": {cause: hours for cause, hours in sorted(lost.items()) if hours},
        "futile": futile,
        "overEvictedGpus": over,
    }


def _aims(run: Run) -> tuple[int, float]:
    """Futile evictions, and GPUs evicted beyond what was asked for; one moment's for one job belong together."""
    begins: dict[str, list[float]] = {}
    demand: dict[str, int] = {}
    for outcome in run.outcomes:
        begins[outcome.job.name] = [stretch.start for stretch in outcome.stretches]
        demand[outcome.job.name] = outcome.job.gpu_demand
    grouped: dict[tuple[float, str], list[int]] = {}
    for eviction in run.evictions:
        if eviction.beneficiary:
            grouped.setdefault((eviction.at, eviction.beneficiary), []).append(eviction.gpu_milli)
    futile, over = 0, 0.0
    for (at, name), freed in grouped.items():
        if any(at <= begin <= at + 1.0 for begin in begins.get(name, ())):
            over += max(0, sum(freed) - demand[name]) / 1000
        else:
            futile += len(freed)
    return futile, over
