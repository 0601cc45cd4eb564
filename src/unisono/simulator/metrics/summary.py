"""Whether tenants, queues and jobs get their shares, and all metrics of a run as one JSON object."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.simulator.metrics.durations import deadlines, durations, jain, percentile, starvation
from unisono.simulator.metrics.usage import cost, gpu_hours, steps, topology, usage, waste, window
from unisono.simulator.world.outcome import COMPLETED, DROPPED, Run

# Whether tenants, queues and jobs get their shares: entitled ones by weighted max-min water-filling, and held ones.

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
    ratios = []
    for outcome in run.outcomes:
        job = outcome.job
        if outcome.state != COMPLETED or outcome.ended is None or not job.gpu_demand or not job.run_seconds:
            continue
        jct = outcome.ended - job.submit
        contenders = (area.until(outcome.ended) - area.until(job.submit)) / jct if jct else 1.0
        ratios.append(jct / (job.run_seconds * max(1.0, contenders * job.gpu_demand / whole)))
    return ratios


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


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares over a run.

    Attributes:
        deviation: time average of half of the sum over queues of |held - entitled|, as shares of the cluster.
        worst: largest time average over queues of how far one is below what it is entitled to.
        served: by queue, shares of the cluster held and entitled to, time averages while the queue has demand.
    """

    deviation: float
    worst: float
    served: Mapping[str, tuple[float, float]]


def entitled(demand: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Weighted max-min fair shares of 1.0: no tenant gets more than its demand, and what that leaves is divided.

    Where one resource dominates, as GPUs do, this is the share of Dominant Resource Fairness (Ghodsi et al., NSDI
    2011).
    """
    shares = dict.fromkeys(demand, 0.0)
    left, open_ = 1.0, {name for name, amount in demand.items() if amount > 0}
    while open_ and left > 1e-12:
        weight = sum(weights.get(name, 1.0) for name in open_)
        level = left / weight
        full = {name for name in open_ if demand[name] <= level * weights.get(name, 1.0)}
        if not full:
            for name in open_:
                shares[name] = level * weights.get(name, 1.0)
            break
        for name in sorted(full):
            shares[name] = demand[name]
            left -= demand[name]
        open_ -= full
    return shares


def share_deviation(run: Run) -> Shares | None:
    """Compare what queues hold with what they are entitled to, at each event; None with fewer than two queues.

    Demand is what a queue's jobs hold and wait for. Shares are of GPUs, or of cores where there are no GPUs.
    """
    weights = {queue.metadata.name: float(queue.spec.weight or 1) for queue in run.cluster.queues}
    names = sorted({outcome.job.queue for outcome in run.outcomes})
    if len(names) < 2:
        return None
    gpus = run.cluster.gpu_total > 0
    whole = 1000.0 * run.cluster.gpu_total if gpus else float(run.cluster.cpu_total)
    changes: list[tuple[float, str, float, float]] = []
    for outcome in run.outcomes:
        job = outcome.job
        if job.submit > run.end or outcome.state == DROPPED:
            continue
        amount = float(job.gpu_demand if gpus else job.cpu_demand)
        changes += [(job.submit, job.queue, 0.0, amount)]
        changes += [(run.end if outcome.ended is None else outcome.ended, job.queue, 0.0, -amount)]
        for stretch in outcome.stretches:
            size = float(stretch.gpu_milli if gpus else stretch.cpu_milli)
            changes += [(stretch.start, job.queue, size, 0.0), (stretch.end, job.queue, -size, 0.0)]
    changes.sort()
    return _integrate(changes, names, weights, whole, window(run))


def _integrate(
    changes: list[tuple[float, str, float, float]],
    names: list[str],
    weights: Mapping[str, float],
    whole: float,
    bounds: tuple[float, float],
) -> Shares | None:
    holding, demand = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    short, got, due, busy = (dict.fromkeys(names, 0.0) for _ in range(4))
    deviation, before, (start, end) = 0.0, bounds[0], bounds
    if whole <= 0 or end <= start:
        return None
    for at, name, size, demanded in [*changes, (end, names[0], 0.0, 0.0)]:
        width = min(at, end) - max(before, start)
        if width > 0:
            shares = entitled({each: demand[each] / whole for each in names}, weights)
            for each in names:
                have = holding[each] / whole
                deviation += width * abs(have - shares[each]) / 2
                short[each] += width * max(0.0, shares[each] - have)
                if demand[each] > 0:
                    got[each] += width * have
                    due[each] += width * shares[each]
                    busy[each] += width
        before = max(before, at)
        holding[name] += size
        demand[name] += demanded
    length = end - start
    served = {each: (got[each] / busy[each], due[each] / busy[each]) for each in names if busy[each]}
    return Shares(deviation / length, max(short.values()) / length, served)


# All metrics of a run as one JSON object; the same run gives the same bytes.


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
