"""All metrics of a run as one JSON object; the same run gives the same bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from unisono.simulator.metrics.durations import deadlines, durations, starvation
from unisono.simulator.metrics.fairness import fairness
from unisono.simulator.metrics.usage import cost, gpu_hours, topology, usage, waste
from unisono.simulator.world.outcome import Run

VERSION = 1
_DIGITS = 9


def summary(run: Run, **about: object) -> dict[str, Any]:
    """Metrics of a run, with what ``about`` says of its inputs in front."""
    states = Counter(outcome.state for outcome in run.outcomes)
    return {
        "unisono": "run",
        "version": VERSION,
        **about,
        "jobs": {"all": len(run.outcomes), **{state: states[state] for state in sorted(states)}},
        "censored": sum(outcome.job.censored for outcome in run.outcomes),
        "nodes": len(run.cluster.nodes),
        "gpus": run.cluster.gpu_total,
        "end": run.end,
        "cycles": run.cycles,
        "binds": run.binds,
        "violations": len(run.violations),
        **durations(run),
        **usage(run),
        "gpuHours": gpu_hours(run),
        "preemption": waste(run),
        "fairness": fairness(run),
        "deadlines": deadlines(run),
        "starvation": starvation(run),
        "topology": topology(run),
        "cost": cost(run),
    }


def encode(value: Any) -> bytes:
    """One line of JSON; numbers have at most nine significant digits, so that rounding hides no machine."""
    return msgspec.json.encode(_rounded(value))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
