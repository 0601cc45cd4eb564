"""When pending jobs start: possible futures of the live state, each a simulation with run times drawn at random.

This is what estimated starts and "what if" have in common.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor

from unisono.cluster.run_durations import RunTimes
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.forecast.live import LiveJobFacts, LiveObjects, live_jobs
from unisono.simulator.forecast.past import Past, past_of
from unisono.simulator.forecast.run_times import Draws, as_guessed, as_stated
from unisono.simulator.metrics.numbers import percentile
from unisono.simulator.world.outcome import Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

LOW, HIGH = 0.1, 0.9
"""Between these shares of the futures lies the 80 % interval."""


@dataclass(frozen=True, slots=True)
class Start:
    """When a pending job starts; times in seconds from now, None for not before the forecast ends.

    Attributes:
        key: PodGroup, ``namespace/name``.
        queue: its queue.
        gpus: GPUs that it asks for.
        median: half of the futures start it by then.
        low, high: the 80 % interval.
        chance: share of the futures in which it starts before the forecast ends.
        known: its run time is stated or was learnt.
        times: when each future starts it, sorted; infinite for not before the forecast ends.
    """

    key: str
    queue: str
    gpus: float
    median: float | None
    low: float | None
    high: float | None
    chance: float
    known: bool
    times: tuple[float, ...] = ()


@dataclass(slots=True)
class Forecast:
    """Starts of the jobs that wait now, and the futures that they come from."""

    starts: list[Start] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    jobs: list[LiveJobFacts] = field(default_factory=list)


def forecast(
    objects: LiveObjects,
    config: SchedulerConfig,
    now: float,
    *,
    futures: int = 20,
    until: float = 7 * 86400.0,
    seed: int = 0,
    past: Past | None = None,
    run_times: RunTimes | None = None,
    settings: Settings | None = None,
    whole: bool = True,
    by_limits: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Forecast:
    """Simulate possible futures of a live cluster.

    Args:
        objects: nodes, queues, PodGroups, pods and whatever else the scheduler reads.
        config: of the scheduler.
        now: seconds since 1970.
        futures: how many; with one, run times are the guesses themselves, and no more jobs come.
        until: seconds after which a future ends.
        seed: the same seed gives the same forecast.
        past: run times and arrivals that it has shown; None: as the objects tell it.
        run_times: as the scheduler has learnt them.
        settings: how the world goes; seed, epoch and end are set here.
        whole: simulate all of the time; without it a future ends when all jobs that wait now have started.
        by_limits: one future in which jobs run as long as they state, whatever earlier runs show.
        progress: is told how many futures are done.

    """
    past = past or past_of(objects, now, run_times)
    learnt = run_times or past.run_times
    objects = objects.without(past.over)
    jobs = live_jobs(objects, now, learnt)
    found = Forecast(jobs=jobs)
    cluster = objects.cluster()
    base = settings or Settings()
    single = futures == 1 or by_limits
    for number in range(1 if single else futures):
        draws = Draws(past.spread, random.Random(f"{seed}/{number}"))  # nosec B311 # of a simulation, no secret
        adopted = [each.adopt(as_stated if by_limits else as_guessed if single else draws.run_time) for each in jobs]
        order = random.Random(f"{seed}/{number}/arrivals")  # nosec B311
        coming = [] if single else past.arrivals(order, until, draws.run_time)
        world = World(
            cluster,
            [*(each.job for each in adopted), *coming],
            config,
            _settings(base, now, until, seed),
            state=objects.state(learnt),
            adopted=adopted,
            until_started=not whole,
        )
        found.runs.append(world.run())
        if progress is not None:
            progress(number + 1, futures)
    found.starts = [_start(at, each, found.runs) for at, each in enumerate(jobs) if each.elapsed is None]
    return found


def _settings(base: Settings, now: float, until: float, seed: int) -> Settings:
    return replace(base, epoch=now, until=until, seed=seed)


def _start(at: int, job: LiveJobFacts, runs: Sequence[Run]) -> Start:
    never = float("inf")
    times = sorted(never if (begun := run.outcomes[at].started) is None else begun for run in runs)

    def told(value: float | None) -> float | None:
        return None if value is None or value == never else value

    # What comes is one more draw: it lies below the k-th of n with probability k / (n + 1), were the futures right.
    first, last = floor(LOW * (len(times) + 1)), ceil(HIGH * (len(times) + 1))
    low, high = times[max(first, 1) - 1], times[min(last, len(times)) - 1]
    chance = sum(time < never for time in times) / len(times)
    key, queue, gpus = job.group.key, job.job.queue, job.job.gpu_demand / 1000
    median = told(percentile(times, 50))
    return Start(key, queue, gpus, median, told(low), told(high), chance, job.guess.known, tuple(times))
