"""How good estimated starts are: forecasts along a simulated workload, against what really came.

The workload runs with its true run times. At chosen moments the cluster is looked at as if it were a live one:
forecasts know only what the scheduler knows then. Each waiting job's true start is compared with its interval and its
median.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from unisono.api.kinds import HYPER_NODES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from unisono.cluster.run_durations import beginning
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.clusters.model import Cluster, make_queue
from unisono.simulator.forecast.forecast import Start, forecast
from unisono.simulator.forecast.live import LiveObjects
from unisono.simulator.forecast.run_times import Spread, to_earlier
from unisono.simulator.metrics.numbers import mean, percentile
from unisono.simulator.workload.job import Job
from unisono.simulator.world.objects import priority_object
from unisono.simulator.world.outcome import COMPLETED
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

_MOST_RATIOS = 2000
_MOST_ARRIVALS = 100_000
_LONGEST = 2 * 86400.0
"""Seconds that forecasts look ahead at most, and back for arrivals."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A waiting job at one moment: its true start, and what was said; seconds from that moment."""

    job: str
    size: str
    true: float
    said: Start
    by_limits: float | None

    @property
    def held(self) -> bool:
        """The 80 % interval holds the true start."""
        low = float("inf") if self.said.low is None else self.said.low
        high = float("inf") if self.said.high is None else self.said.high
        return low <= self.true <= high


@dataclass(slots=True)
class Calibration:
    """All that was looked at."""

    looked: list[Looked] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Coverage of the 80 % interval, and median absolute errors, of all and by size of jobs."""
        sizes = sorted({each.size for each in self.looked})
        told = _figures(self.looked)
        told["bySize"] = {size: _figures([each for each in self.looked if each.size == size]) for size in sizes}
        return told


def _figures(looked: Sequence[Looked]) -> dict[str, Any]:
    errors = [abs(each.said.median - each.true) for each in looked if each.said.median is not None]
    limits = [abs(each.by_limits - each.true) for each in looked if each.by_limits is not None]
    return {
        "estimates": len(looked),
        "coverage": mean([float(each.held) for each in looked]),
        "medianError": percentile(errors, 50),
        "medianErrorByLimits": percentile(limits, 50),
        "medianWait": percentile([each.true for each in looked], 50),
    }


def calibrate(
    cluster: Cluster,
    jobs: Sequence[Job],
    config: SchedulerConfig,
    settings: Settings,
    *,
    moments: int = 20,
    futures: int = 20,
    most_jobs: int = 50,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Look at a workload at so many moments, spread evenly over its submissions but the first and the last fifth.

    At first the cluster fills and little has been seen yet, and behind the last submission nothing comes any more,
    which no forecast knows.

    Args:
        cluster: where it runs.
        jobs: of the workload.
        config: of the scheduler, also in the forecasts.
        settings: how the world goes.
        moments: how often it is looked at.
        futures: of each forecast.
        most_jobs: waiting jobs of each moment that count, the first ones.
        progress: is told how many moments are done.

    """
    first, last = jobs[0].submit, jobs[-1].submit
    times = [first + (last - first) * (0.2 + 0.6 * number / moments) for number in range(moments)]
    seen: list[tuple[float, Start, float | None]] = []
    recent = _Recent(jobs)

    def watch(world: World) -> None:
        if any(live.outcome.started is None for live in world.live.values()):
            objects = objects_of(world)
            now = settings.epoch + world.now
            length = max(min(world.now - first, _LONGEST), 1.0)
            common: dict[str, Any] = {
                "until": length,
                "run_times": world.state.run_times,
                "settings": settings,
                "whole": False,
            }
            possible = forecast(
                objects,
                config,
                now,
                futures=futures,
                seed=settings.seed,
                spread=recent.spread(world),
                arrivals=lambda number: recent.arrivals(world.now, length, number),
                **common,
            )
            limits = forecast(objects, config, now, futures=1, **common)
            by_limits = {start.key: start.median for start in limits.starts}
            seen.extend((world.now, start, by_limits.get(start.key)) for start in possible.starts[:most_jobs])
        if progress is not None:
            progress(times.index(world.now) + 1, moments)

    world = World(cluster, jobs, config, settings, watch=watch, watch_at=times)
    run = world.run()
    started = {f"{each.job.user or 'default'}/{each.job.name}": each for each in run.outcomes}
    found = Calibration()
    for at, start, by_limits in seen:
        outcome = started[start.key]
        if outcome.started is not None:
            size = "1 gpu" if start.gpus <= 1 else "2-8 gpus" if start.gpus <= 8 else ">8 gpus"
            found.looked.append(Looked(start.key, size, outcome.started - at, start, by_limits))
    return found


class _Recent:
    """What may be known of a workload at a moment: how jobs that have ended used their limits, and what came lately."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs

    def spread(self, world: World) -> Spread:
        """Ratios of jobs that have ended to the limits that they stated, and to earlier jobs of their kind."""
        ended = sorted(
            (outcome.ended or 0.0, number, outcome.job)
            for number, outcome in enumerate(world.outcomes)
            if outcome.state == COMPLETED and outcome.job.run_seconds
        )[-_MOST_RATIOS:]
        jobs = [job for _, _, job in ended]
        learnt = to_earlier(((job.user, beginning(job.name)), job.run_seconds or 0.0) for job in jobs)
        return Spread([(job.run_seconds or 0.0) / job.estimate for job in jobs if job.estimate], learnt)

    def arrivals(self, now: float, length: float, number: int) -> list[Job]:
        """Jobs that may come: gaps and bodies of the last while, drawn with replacement.

        An order of the past's own bodies would bring the same work in every future, and so intervals that are too
        narrow where few large jobs make most of it.
        """
        past = [job for job in self._jobs if now - length < job.submit <= now]
        draw = random.Random(number)  # nosec B311 # draws of a simulation, no secret
        gaps = [later.submit - job.submit for job, later in pairwise(past)]
        coming: list[Job] = []
        at = draw.choice(gaps) * draw.random() if gaps else length
        while at < length and len(coming) < _MOST_ARRIVALS:
            body = draw.choice(past)
            coming.append(replace(body, name=f"{body.name}-future-{len(coming)}", submit=at))
            at += draw.choice(gaps)
        return coming


def objects_of(world: World) -> LiveObjects:
    """The objects of a world at this moment, as a live cluster would list them."""
    objects = LiveObjects()
    objects.add(NODES, [node for node in world.cluster.nodes if node.metadata.name in world.up])
    objects.add(HYPER_NODES, world.cluster.hyper_nodes)
    queues = {queue.metadata.name: queue for queue in world.cluster.queues}
    for name in ("default", *sorted({job.queue for job in world.jobs})):
        queues.setdefault(name, make_queue(name))
    objects.add(QUEUES, queues.values())
    objects.add(
        PRIORITY_CLASSES, [priority_object(value) for value in sorted({job.priority for job in world.jobs} - {0})]
    )
    objects.add(POD_GROUPS, [live.group for live in world.live.values()])
    objects.add(PODS, [pod for live in world.live.values() for pod in live.pods])
    return objects
