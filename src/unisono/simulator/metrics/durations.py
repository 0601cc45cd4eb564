"""How long jobs take and wait."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from unisono.simulator.world.outcome import COMPLETED, JobOutcome, Run

# Small statistics: means, nearest-rank percentiles, Jain's index.


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    return sum(values) / len(values) if values else None


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """Mean by weight; None where nothing weighs."""
    total = sum(weights)
    if not total:
        return None
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Nearest-rank percentile: the smallest value that is not below ``percent`` of all values."""
    if not values:
        return None
    return sorted(values)[max(ceil(percent / 100 * len(values)) - 1, 0)]


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness, ``(sum x)^2 / (n sum x^2)``: 1 for equal values, 1/n where one has all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, median, 90th and 99th percentile, and the largest."""
    return {
        "mean": mean(values),
        "p50": percentile(values, 50),
        "p90": percentile(values, 90),
        "p99": percentile(values, 99),
        "max": max(values, default=None),
    }


TAU = 10.0
"""Seconds below which a run time counts as so long in slowdowns."""


def completion_time(outcome: JobOutcome) -> float | None:
    """Job completion time (JCT): from submission to the end; None for jobs that have not ended."""
    return None if outcome.ended is None else outcome.ended - outcome.job.submit


def first_wait(outcome: JobOutcome) -> float | None:
    """From submission until the last required member of the gang has its place for the first time."""
    return None if outcome.started is None else outcome.started - outcome.job.submit


def held_seconds(outcome: JobOutcome) -> float:
    """Time in which at least one part of the job held its places."""
    spans = sorted((stretch.start, stretch.end) for stretch in outcome.stretches)
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def total_wait(outcome: JobOutcome) -> float | None:
    """JCT less the time in which it held places: under preemption more than the first wait."""
    jct = completion_time(outcome)
    return None if jct is None else max(0.0, jct - held_seconds(outcome))


def bounded_slowdown(outcome: JobOutcome, tau: float = TAU) -> float | None:
    """``max(1, JCT / max(run time, tau))``."""
    jct = completion_time(outcome)
    return None if jct is None else max(1.0, jct / max(outcome.job.run_seconds or 0.0, tau))


def size_class(outcome: JobOutcome) -> str:
    """``cpu``, ``1 gpu``, ``2-8 gpus`` or ``>8 gpus``; fractions of a GPU count as one."""
    gpus = outcome.job.gpu_demand / 1000
    if not gpus:
        return "cpu"
    if gpus <= 1:
        return "1 gpu"
    return "2-8 gpus" if gpus <= 8 else ">8 gpus"


def durations(run: Run) -> dict[str, Any]:
    """Of completed jobs: ``jct``, ``wait`` (first), ``totalWait``, ``slowdown``, and some by size, class and queue.

    Attributes:
        makespan: last end less first submission.
        gpuWeightedJct: mean JCT weighted by GPUs.
    """
    done = [outcome for outcome in run.outcomes if outcome.state == COMPLETED]
    jcts = [completion_time(outcome) or 0.0 for outcome in done]
    ends = [outcome.ended for outcome in done if outcome.ended is not None]
    return {
        "jct": spread(jcts),
        "gpuWeightedJct": weighted_mean(jcts, [outcome.job.gpu_demand for outcome in done]),
        "wait": spread([first_wait(outcome) or 0.0 for outcome in done]),
        "totalWait": spread([total_wait(outcome) or 0.0 for outcome in done]),
        "slowdown": spread([bounded_slowdown(outcome) or 1.0 for outcome in done]),
        "makespan": max(ends) - min(outcome.job.submit for outcome in run.outcomes) if ends else None,
        "bySize": _groups(done, [size_class(outcome) for outcome in done]),
        "byClass": _groups(done, [outcome.job.job_class for outcome in done]),
        "byQueue": _groups(done, [outcome.job.queue for outcome in done]),
    }


def _groups(done: Sequence[JobOutcome], names: Sequence[str]) -> dict[str, dict[str, float | int | None]]:
    groups: dict[str, list[JobOutcome]] = {}
    for outcome, name in zip(done, names, strict=True):
        groups.setdefault(name, []).append(outcome)
    if len(groups) < 2 and "" in groups:
        return {}
    figures: dict[str, dict[str, float | int | None]] = {}
    for name in sorted(groups):
        jcts = [completion_time(outcome) or 0.0 for outcome in groups[name]]
        waits = [first_wait(outcome) or 0.0 for outcome in groups[name]]
        figures[name] = {
            "jobs": len(jcts),
            "jct": mean(jcts),
            "jctP99": percentile(jcts, 99),
            "wait": mean(waits),
            "waitP99": percentile(waits, 99),
        }
    return figures


def deadlines(run: Run) -> dict[str, Any] | None:
    """Share of jobs that end within their deadline, and mean seconds by which the others are late; by class, too.

    A job that has not ended has missed its deadline if that is over. None where no job has one.
    """
    judged = [outcome for outcome in run.outcomes if outcome.job.deadline is not None]
    if not judged:
        return None
    groups: dict[str, list[float]] = {}
    for outcome in judged:
        due = outcome.job.submit + (outcome.job.deadline or 0.0)
        ended = run.end if outcome.ended is None else outcome.ended
        if outcome.ended is None and run.end <= due:
            continue
        groups.setdefault("", []).append(ended - due)
        if outcome.job.job_class:
            groups.setdefault(outcome.job.job_class, []).append(ended - due)
    lateness = {name: _lateness(late) for name, late in sorted(groups.items())}
    return {**lateness.pop("", _lateness([])), "byClass": lateness}


def _lateness(late: Sequence[float]) -> dict[str, float | int | None]:
    met = [each <= 1e-6 for each in late]
    return {
        "jobs": len(late),
        "met": mean([float(each) for each in met]),
        "tardiness": mean([max(0.0, each) for each in late]),
    }


def starvation(run: Run) -> dict[str, Any]:
    """Longest wait, and how many jobs waited more than ten times their run time while a smaller later one began.

    Smaller means fewer GPUs (or fewer cores where neither has any); jobs that never started have waited until the end.
    """
    starved, longest = 0, 0.0
    begun = _begun(run)
    for outcome in run.outcomes:
        if outcome.job.submit > run.end:
            continue
        until = run.end if outcome.started is None else outcome.started
        wait = until - outcome.job.submit
        longest = max(longest, wait)
        if wait <= 10.0 * max(outcome.job.run_seconds or TAU, TAU):
            continue
        size = _size(outcome)
        starved += any(
            later > outcome.job.submit and outcome.job.submit < start < until and other < size
            for start, later, other in begun
        )
    return {"longestWait": longest, "starved": starved}


def _begun(run: Run) -> list[tuple[float, float, tuple[int, int]]]:
    return [
        (outcome.started, outcome.job.submit, _size(outcome)) for outcome in run.outcomes if outcome.started is not None
    ]


def _size(outcome: JobOutcome) -> tuple[int, int]:
    return outcome.job.gpu_demand, outcome.job.cpu_demand
