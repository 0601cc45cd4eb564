"""How good estimated starts are: forecasts along a simulated workload, against what really came.

The workload runs with its true run times. At chosen moments the cluster is looked at as if it were a live one:
forecasts know only what the scheduler knows then. Each waiting job's true start is compared with its interval and its
median.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from unisono.api.core import Pod
from unisono.api.kinds import HYPER_NODES, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from unisono.api.scheduling import PodGroup
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.clusters.model import Cluster, make_queue
from unisono.simulator.forecast.forecast import Start, forecast
from unisono.simulator.forecast.live import LiveObjects
from unisono.simulator.forecast.past import past_of
from unisono.simulator.metrics.numbers import mean, percentile
from unisono.simulator.workload.job import Job
from unisono.simulator.world.objects import ObjectMaker, priority_object, succeeded
from unisono.simulator.world.outcome import COMPLETED, JobOutcome
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

_KEPT = 1000
"""Jobs that have ended whose objects are still there."""
_LONGEST = 86400.0
"""Seconds that forecasts look ahead at most."""
_ROUNDED = 1.0
"""By so many seconds times on the wire may be off."""
_GONE = "node"
"""Where jobs ran that have ended."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A waiting job at one moment: its true start, and what was said; seconds from that moment.

    Attributes:
        job: key of its PodGroup.
        gpus: that it asks for; cores where the cluster has no GPUs.
        true: when it started.
        said: the forecast.
        by_limits: the start by a forecast that goes by limits, None for not before the forecast ends.
        until: seconds after which the forecast ends.
    """

    job: str
    gpus: float
    true: float
    said: Start
    by_limits: float | None
    until: float

    @property
    def size(self) -> str:
        """Which row of the table it belongs to."""
        return "1 gpu" if self.gpus <= 1 else "2-8 gpus" if self.gpus <= 8 else ">8 gpus"

    @property
    def open(self) -> bool:
        """All that was said is that it does not start before the forecast ends."""
        return self.said.low is None

    @property
    def held(self) -> bool:
        """The 80 % interval holds the true start; times on the wire are whole seconds."""
        low = self.until if self.said.low is None else self.said.low
        high = inf if self.said.high is None else self.said.high
        return low - _ROUNDED <= self.true <= high + _ROUNDED


@dataclass(slots=True)
class Calibration:
    """All that was looked at."""

    looked: list[Looked] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        """Coverage of the 80 % interval, and median absolute errors, of all and by size of jobs."""
        sizes = sorted({each.size for each in self.looked})
        told = figures_of(self.looked)
        told["bySize"] = {size: figures_of([each for each in self.looked if each.size == size]) for size in sizes}
        return told


def figures_of(looked: Sequence[Looked]) -> dict[str, Any]:
    """Figures of some jobs; those of which only "later" was said count apart, and have no error."""
    told = [each for each in looked if not each.open]
    later = [each for each in looked if each.open]
    errors = [abs(each.said.median - each.true) for each in told if each.said.median is not None]
    limits = [abs(each.by_limits - each.true) for each in told if each.by_limits is not None]
    return {
        "estimates": len(told),
        "coverage": mean([float(each.held) for each in told]),
        "medianError": percentile(errors, 50),
        "medianErrorByLimits": percentile(limits, 50),
        "medianWait": percentile([each.true for each in told], 50),
        "later": len(later),
        "laterRight": sum(each.held for each in later),
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
    seen: list[tuple[float, float, Start, float | None]] = []
    ended = _Ended(settings)

    def watch(world: World) -> None:
        if any(live.outcome.started is None for live in world.live.values()):
            objects = objects_of(world)
            ended.add_to(objects, world)
            now = settings.epoch + world.now
            until = max(min(world.now - first, _LONGEST), 1.0)
            common: dict[str, Any] = {"until": until, "settings": settings, "whole": False}
            common |= {"past": past_of(objects, now)}
            possible = forecast(objects, config, now, futures=futures, seed=settings.seed, **common)
            limits = forecast(objects, config, now, by_limits=True, **common)
            by_limits = {start.key: start.median for start in limits.starts}
            found = possible.starts[:most_jobs]
            seen.extend((world.now, until, start, by_limits.get(start.key)) for start in found)
        if progress is not None:
            progress(times.index(world.now) + 1, moments)

    world = World(cluster, jobs, config, settings, watch=watch, watch_at=times)
    run = world.run()
    started = {f"{each.job.user or 'default'}/{each.job.name}": each for each in run.outcomes}
    looked = Calibration()
    for at, until, start, limit in seen:
        outcome = started[start.key]
        if outcome.started is not None:
            size = start.gpus if cluster.gpu_total else outcome.job.cpu_demand / 1000
            looked.looked.append(Looked(start.key, size, outcome.started - at, start, limit, until))
    return looked


class _Ended:
    """Objects of jobs that have ended, which a live cluster keeps for a while."""

    def __init__(self, settings: Settings) -> None:
        self._epoch = settings.epoch
        self._maker = ObjectMaker(shared=False, run_times=settings.run_times, epoch=settings.epoch)
        self._made: dict[int, tuple[PodGroup, list[Pod]]] = {}

    def add_to(self, objects: LiveObjects, world: World) -> None:
        """Add the jobs that have ended last."""
        over = [
            (outcome.ended or 0.0, number)
            for number, outcome in enumerate(world.outcomes)
            if outcome.state == COMPLETED and outcome.stretches
        ]
        for _, number in sorted(over)[-_KEPT:]:
            if number not in self._made:
                self._made[number] = self._make(world.outcomes[number], number)
            group, pods = self._made[number]
            objects.add(POD_GROUPS, [group])
            objects.add(PODS, pods)

    def _make(self, outcome: JobOutcome, number: int) -> tuple[PodGroup, list[Pod]]:
        job, maker = outcome.job, self._maker
        end = outcome.ended or 0.0
        begin = max(stretch.start for stretch in outcome.stretches if stretch.cause == "completed")
        roles = [role for role in job.roles for _ in range(role.count)]
        waiting = [maker.pod(job, role, f"{job.name}-{at}", job.submit) for at, role in enumerate(roles)]
        pods = [succeeded(maker.running(pod, _GONE, begin, {}), self._epoch + end) for pod in waiting]
        group = maker.group(job, number)
        group.status.phase = "Completed"
        return group, pods


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
