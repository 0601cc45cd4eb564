"""How much of the cluster is held over time, and how much of that is useful."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from unisono.simulator.world.outcome import COMPLETED, Run

Steps = list[tuple[float, float]]
"""A function of time that changes in steps: (from when, value)."""


def steps(changes: Iterable[tuple[float, float]]) -> Steps:
    """The sum of changes over time."""
    found: Steps = []
    value = 0.0
    for at, change in sorted(changes):
        value += change
        if found and found[-1][0] == at:
            found[-1] = (at, value)
        else:
            found.append((at, value))
    return found


def integral(line: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Area below the steps between two times; before the first step there is nothing."""
    total = 0.0
    for number, (at, value) in enumerate(line):
        until = line[number + 1][0] if number + 1 < len(line) else end
        total += max(0.0, min(until, end) - max(at, start)) * value
    return total


def held(run: Run, *, resource: str = "gpu", queue: str | None = None) -> Steps:
    """Thousandths of GPUs (or of cores) that jobs hold, of all queues or of one."""
    return steps(_held_changes(run, resource, queue))


def _held_changes(run: Run, resource: str, queue: str | None) -> Iterator[tuple[float, float]]:
    for outcome in run.outcomes:
        if queue is not None and outcome.job.queue != queue:
            continue
        for stretch in outcome.stretches:
            amount = stretch.gpu_milli if resource == "gpu" else stretch.cpu_milli
            if amount and stretch.end > stretch.start:
                yield stretch.start, amount
                yield stretch.end, -amount


def queue_length(run: Run) -> Steps:
    """Jobs that have arrived and not started for the first time."""

    def changes() -> Iterator[tuple[float, float]]:
        for outcome in run.outcomes:
            if outcome.job.submit > run.end or outcome.state == "dropped":
                continue
            yield outcome.job.submit, 1
            if outcome.started is not None:
                yield outcome.started, -1

    return steps(changes())


def window(run: Run, warm_up: float = 0.0) -> tuple[float, float]:
    """From the first to the last submission, without a share ``warm_up`` of it at the beginning.

    After the last submission a cluster drains, and the scheduler cannot help what it leaves idle. Where all
    jobs come at once, until the end.
    """
    submits = [outcome.job.submit for outcome in run.outcomes]
    first, last = min(submits, default=0.0), max(submits, default=0.0)
    end = min(last, run.end) if last > first else run.end
    return first + warm_up * (end - first), end


def usage(run: Run) -> dict[str, Any]:
    """Shares of the cluster over the `window` and over the whole run.

    Attributes:
        allocation: GPUs held by jobs, as a share of all GPUs (of cores where there are no GPUs), in the window.
        allocationToEnd: the same until the end of the run.
        useful: share of the GPU time held that led to the end of jobs: without what was lost by interruptions,
            overheads, and jobs that were given up.

    """
    gpus = run.cluster.gpu_total > 0
    capacity = [(at, 1000.0 * count if gpus else float(cpu)) for at, count, cpu in run.capacity]
    line = held(run, resource="gpu" if gpus else "cpu")
    start, end = window(run)
    first = min((outcome.job.submit for outcome in run.outcomes), default=0.0)
    return {
        "allocation": _share(line, capacity, start, end),
        "allocationToEnd": _share(line, capacity, first, run.end),
        "useful": _useful(run, gpus),
    }


def _share(line: Steps, capacity: Steps, start: float, end: float) -> float | None:
    whole = integral(capacity, start, end)
    return integral(line, start, end) / whole if whole > 0 else None


def _useful(run: Run, gpus: bool) -> float | None:
    used = wasted = 0.0
    for outcome in run.outcomes:
        for stretch in outcome.stretches:
            amount = stretch.gpu_milli if gpus else stretch.cpu_milli
            length = stretch.end - stretch.start
            used += amount * length
            given_up = outcome.state not in (COMPLETED, "running")
            wasted += amount * (length if given_up else min(length, stretch.lost + stretch.overhead))
    return 1 - wasted / used if used else None


def gpu_hours(run: Run) -> float:
    """GPU hours held by jobs."""
    return (
        sum(
            stretch.gpu_milli / 1000 * (stretch.end - stretch.start)
            for outcome in run.outcomes
            for stretch in outcome.stretches
        )
        / 3600
    )


def cost(run: Run) -> dict[str, float | None] | None:
    """Money: of the cluster for the length of the run, and per completed job; None where nodes have no price."""
    hourly = sum(run.cluster.prices.values())
    if not hourly:
        return None
    done = sum(outcome.state == COMPLETED for outcome in run.outcomes)
    first = min((outcome.job.submit for outcome in run.outcomes), default=0.0)
    total = hourly * (run.end - first) / 3600
    return {"total": total, "perJob": total / done if done else None}
