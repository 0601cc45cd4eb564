"""Whether tenants and jobs get their shares."""

from __future__ import annotations

from typing import Any

from unisono.simulator.metrics.numbers import jain, percentile
from unisono.simulator.metrics.shares import share_deviation
from unisono.simulator.metrics.usage import steps
from unisono.simulator.world.outcome import COMPLETED, Run

SLACK = 1.05
"""A job counts as treated unfairly when it takes this much longer than with its share."""


def finish_time_fairness(run: Run) -> list[float]:
    """Finish-time fairness of completed jobs, ``rho = JCT / T_ideal`` (Themis, NSDI 2020), dynamic variant.

    ``T_ideal = run time x max(1, N x GPUs / all GPUs)``, where N is the mean number of jobs in the cluster during the
    job's life: what it would take alone on a 1/N share. Jobs without GPUs are left out.
    """
    whole = 1000 * run.cluster.gpu_total
    changes: list[tuple[float, float]] = []
    for outcome in run.outcomes:
        if outcome.job.submit <= run.end:
            changes += [(outcome.job.submit, 1), (run.end if outcome.ended is None else outcome.ended, -1)]
    area = _Area(steps(changes))
    found = []
    for outcome in run.outcomes:
        job = outcome.job
        if outcome.state != COMPLETED or outcome.ended is None or not job.gpu_demand or not job.run_seconds:
            continue
        jct = outcome.ended - job.submit
        contenders = (area.until(outcome.ended) - area.until(job.submit)) / jct if jct else 1.0
        found.append(jct / (job.run_seconds * max(1.0, contenders * job.gpu_demand / whole)))
    return found


class _Area:
    """Areas below steps from the beginning until any time, found fast."""

    def __init__(self, line: list[tuple[float, float]]) -> None:
        self._times = [at for at, _ in line]
        self._values = [value for _, value in line]
        self._areas = [0.0]
        for number in range(1, len(line)):
            width = self._times[number] - self._times[number - 1]
            self._areas.append(self._areas[-1] + width * self._values[number - 1])

    def until(self, at: float) -> float:
        from bisect import bisect_right

        number = bisect_right(self._times, at) - 1
        if number < 0:
            return 0.0
        return self._areas[number] + (at - self._times[number]) * self._values[number]


def fairness(run: Run) -> dict[str, Any]:
    """Finish-time fairness of jobs, and shares of queues.

    Attributes:
        worstRho, rhoP99: of `finish_time_fairness`.
        unfair: share of jobs above `SLACK`.
        jain: Jain's index over queues of held over entitled GPU time, counted while a queue has demand.
        shareDeviation, worstShortfall: see `share_deviation`.

    """
    rhos = finish_time_fairness(run)
    return {
        "worstRho": max(rhos, default=None),
        "rhoP99": percentile(rhos, 99),
        "unfair": sum(rho > SLACK for rho in rhos) / len(rhos) if rhos else None,
        **_queues(run),
    }


def _queues(run: Run) -> dict[str, Any]:
    shares = share_deviation(run)
    if shares is None:
        return {}
    ratios = [got / due for got, due in shares.served.values() if due > 0]
    return {
        "jain": jain(ratios),
        "shareDeviation": shares.deviation,
        "worstShortfall": shares.worst,
        "byQueue": {name: {"held": got, "entitled": due} for name, (got, due) in sorted(shares.served.items())},
    }
