"""What a change would do: the same possible futures of a live cluster without and with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.cluster.run_durations import RunTimes
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.forecast.changes import Changed
from unisono.simulator.forecast.forecast import Forecast, Start, forecast
from unisono.simulator.forecast.live import LiveObjects
from unisono.simulator.forecast.past import past_of
from unisono.simulator.metrics.fairness import share_deviation
from unisono.simulator.metrics.numbers import mean
from unisono.simulator.metrics.preemption import waste
from unisono.simulator.metrics.usage import held, integral, queue_length, usage
from unisono.simulator.studies.compare import Interval, interval
from unisono.simulator.world.outcome import Run


@dataclass(frozen=True, slots=True)
class Moved:
    """A waiting job without and with the change; None where it is not there."""

    key: str
    before: Start | None
    after: Start | None

    @property
    def later(self) -> float | None:
        """Seconds by which the median start moves; below 0 it wins."""
        if self.before is None or self.after is None or self.before.median is None or self.after.median is None:
            return None
        return self.after.median - self.before.median


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the whole cluster: means over futures, and the difference of the pairs."""

    name: str
    before: float
    after: float
    difference: Interval


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The outcome; ``evicted`` are jobs that run now and are evicted more often with the change."""

    told: tuple[str, ...]
    moved: tuple[Moved, ...]
    figures: tuple[Figure, ...]
    evicted: tuple[str, ...]
    futures: int
    until: float


def what_if(
    objects: LiveObjects,
    config: SchedulerConfig,
    now: float,
    changed: Changed,
    *,
    futures: int = 20,
    until: float = 4 * 3600.0,
    seed: int = 0,
    run_times: RunTimes | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Compare futures pair by pair: the same run times and arrivals without and with the change.

    Args:
        objects: of the cluster as it is.
        config: of the scheduler.
        now: seconds since 1970.
        changed: the cluster after the change.
        futures: how many possible futures of each side.
        until: seconds after which a future ends.
        seed: the same seed gives the same answer.
        run_times: as the scheduler has learnt them.
        progress: is told how many futures are done, of both sides.

    """

    def tell(first: int) -> Callable[[int, int], None] | None:
        return None if progress is None else lambda done, _: progress(first + done, 2 * futures)

    past = past_of(objects, now, run_times)
    common: dict[str, Any] = {"futures": futures, "until": until, "seed": seed, "past": past, "run_times": run_times}
    before = forecast(objects, config, now, **common, progress=tell(0))
    after = forecast(changed.objects, changed.config or config, now, **common, progress=tell(futures))
    return WhatIf(changed.told, _moved(before, after), _figures(before, after), _evicted(before, after), futures, until)


def _moved(before: Forecast, after: Forecast) -> tuple[Moved, ...]:
    left = {start.key: start for start in before.starts}
    right = {start.key: start for start in after.starts}
    found = [Moved(key, left.get(key), right.get(key)) for key in {**left, **right}]
    found.sort(key=lambda each: (-abs(each.later or 0.0), each.key))
    return tuple(found)


def _evicted(before: Forecast, after: Forecast) -> tuple[str, ...]:
    def counts(side: Forecast) -> dict[str, float]:
        return {
            job.group.key: sum(run.outcomes[at].evictions for run in side.runs) / len(side.runs)
            for at, job in enumerate(side.jobs)
            if job.elapsed is not None
        }

    left, right = counts(before), counts(after)
    return tuple(sorted(key for key, count in right.items() if count > left.get(key, 0.0)))


def _figures(before: Forecast, after: Forecast) -> tuple[Figure, ...]:
    left, right = [_of_run(run) for run in before.runs], [_of_run(run) for run in after.runs]
    found = []
    for name in left[0]:
        pairs = [(a[name], b[name]) for a, b in zip(left, right, strict=True)]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if known:
            means = mean([a for a, _ in known]) or 0.0, mean([b for _, b in known]) or 0.0
            found.append(Figure(name, *means, interval([b - a for a, b in known])))
    return tuple(found)


def _of_run(run: Run) -> dict[str, float | None]:
    """Figures of one future."""
    shares = share_deviation(run)
    length = run.end or 1.0
    gpus = float(run.cluster.gpu_total)
    busy = integral(held(run), 0.0, run.end) / 1000 / length
    waited = integral(queue_length(run), 0.0, run.end) / length
    return {
        "allocation": usage(run)["allocationToEnd"],
        "waitingJobs": waited,
        "idleGpus": gpus - busy if gpus else None,
        "shareDeviation": None if shares is None else shares.deviation,
        "evictions": float(waste(run)["evictions"]),
    }


def as_json(found: WhatIf) -> dict[str, Any]:
    """For programs; docs/simulator.md gives the form."""
    return {
        "unisono": "whatif",
        "version": 1,
        "changes": found.told,
        "futures": found.futures,
        "until": found.until,
        "jobs": [
            {
                "podGroup": each.key,
                "before": None if each.before is None else start_json(each.before),
                "after": None if each.after is None else start_json(each.after),
                "later": each.later,
            }
            for each in found.moved
        ],
        "evicted": found.evicted,
        "figures": {
            each.name: {
                "before": each.before,
                "after": each.after,
                "difference": each.difference.mean,
                "interval": each.difference.half,
            }
            for each in found.figures
        },
    }


def start_json(start: Start) -> dict[str, Any]:
    """One job's start, seconds from now."""
    return {
        "queue": start.queue,
        "gpus": start.gpus,
        "median": start.median,
        "low": start.low,
        "high": start.high,
        "chance": start.chance,
        "runTimeKnown": start.known,
    }


def starts_json(found: Forecast, now: float, until: float) -> dict[str, Any]:
    """Estimated starts for programs."""
    starts: Sequence[Start] = found.starts
    return {
        "unisono": "estimate",
        "version": 1,
        "now": now,
        "futures": len(found.runs),
        "until": until,
        "jobs": [{"podGroup": each.key, **start_json(each)} for each in starts],
    }
