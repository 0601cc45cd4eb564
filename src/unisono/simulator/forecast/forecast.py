"""When pending jobs start: possible futures of the live state, and how good such estimates were."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, floor, inf
from typing import Any

from unisono.api import kinds
from unisono.api.budgets import with_tally
from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.messages import counted
from unisono.cluster.recent import RunTimes
from unisono.engine.config.model import SchedulerConfig
from unisono.simulator.clusters import Cluster, make_queue
from unisono.simulator.forecast.fast import FastModel, left_out
from unisono.simulator.forecast.fast_future import Future
from unisono.simulator.forecast.live import LiveJobFacts, LiveObjects, live_jobs
from unisono.simulator.forecast.past import Draws, Past, as_guessed, as_stated, past_of
from unisono.simulator.metrics.durations import mean, percentile
from unisono.simulator.workload.job import Job
from unisono.simulator.world.live_jobs import Adopted
from unisono.simulator.world.objects import ObjectMaker, priority_object, succeeded
from unisono.simulator.world.outcome import COMPLETED, JobOutcome, Run
from unisono.simulator.world.settings import Settings
from unisono.simulator.world.world import World

# When pending jobs start: possible futures of the live state, each a simulation with run times drawn at random.
#
# This is what estimated starts and "what if" have in common.

LOW, HIGH = 0.1, 0.9
"""Between these shares of the futures lies the 80 % interval."""
_FEWEST = 9
"""Futures of the fast model that an answer has at least: of fewer the first and the last are no interval of 80 %. So
many starts in a queue tell its error."""
_LEAST_TIME = 60.0
"""Seconds that are added to starts where they are compared: a factor of ten in some seconds is no error."""


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
        never: why it could not start on the empty cluster either; empty where it could, or nobody looked.
        source: what kind of futures say so, for people.
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
    never: str = ""
    source: str = ""


@dataclass(slots=True)
class Forecast:
    """Starts of the jobs that wait now, and the futures that they come from.

    Attributes:
        starts: of the jobs that wait.
        runs: the futures: those of the engine where all of them are done, else those of the fast model.
        jobs: that have not ended.
        engine: futures that the engine has simulated to their end.
        whole: whether the engine has simulated all of them.
        source: what the answer goes by, for people.
    """

    starts: list[Start] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    jobs: list[LiveJobFacts] = field(default_factory=list)
    engine: int = 0
    whole: bool = True
    source: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Time that an answer may take: a clock that is given, usually of the processor, and when it is over.

    The fast model answers first, in half of it or as long as it needs for an interval; what is left is the engine's.
    """

    clock: Callable[[], float]
    half: float
    end: float

    @classmethod
    def of(cls, seconds: float, clock: Callable[[], float]) -> Budget:
        """From now on."""
        begin = clock()
        return cls(clock, begin + seconds / 2, begin + seconds)

    def over(self) -> bool:
        """Whether the time is over."""
        return self.clock() >= self.end


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
    budget: Budget | None = None,
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
        budget: a fast model answers first; then the engine simulates the same futures one by one, and the answer
            narrows to its own. None: the engine alone, however long it takes.
        progress: is told how many futures are done.
    """
    side = Side(objects, config, now, past=past, run_times=run_times, futures=futures, until=until, seed=seed)
    side.settings, side.all_time, side.by_limits = settings or Settings(), whole, by_limits
    run_sides((side,), budget, progress)
    return side.found()


class Side:
    """The futures of a cluster, simulated one after the other, by the fast model and by the engine.

    Args:
        objects, config, now, past, run_times, futures, until, seed: as for `forecast`.
    """

    def __init__(
        self,
        objects: LiveObjects,
        config: SchedulerConfig,
        now: float,
        *,
        past: Past | None,
        run_times: RunTimes | None,
        futures: int,
        until: float,
        seed: int,
    ) -> None:
        self._past = past or past_of(objects, now, run_times)
        self._learnt = run_times or self._past.run_times
        self._objects, self._config, self._now = objects.without(self._past.over), config, now
        self._futures, self._until, self._seed = futures, until, seed
        self.settings, self.all_time, self.by_limits = Settings(), True, False
        self.jobs, self._state = live_jobs(self._objects, now, self._learnt)
        self._cluster = self._objects.cluster()
        self._fast: list[Run] = []
        self._engine: list[tuple[Run, bool]] = []

    @property
    def futures(self) -> int:
        """How many there are."""
        return 1 if self.by_limits else self._futures

    def _drawn(self, number: int) -> tuple[list[Adopted], list[Job]]:
        """Run times and arrivals of one future."""
        draws = Draws(self._past.spread, random.Random(f"{self._seed}/{number}"))  # nosec B311 # no secret
        single = self.futures == 1
        possible = as_stated if self.by_limits else as_guessed if single else draws.run_time
        adopted = [each.adopt(possible) for each in self.jobs]
        order = random.Random(f"{self._seed}/{number}/arrivals")  # nosec B311
        return adopted, [] if single else self._past.arrivals(order, self._until, draws.run_time)

    @cached_property
    def _model(self) -> FastModel:
        some = () if self.futures == 1 else (each.body for each in self._past.recent)
        return FastModel(self._state, self._cluster, self.jobs, self._config, self._now, self.settings, some)

    def run_fast(self, number: int) -> None:
        """A future of the fast model; they come in order."""
        self._fast.append(Future(self._model, *self._drawn(number), self._until, whole=self.all_time).run())

    def run_engine(self, number: int, budget: Budget | None) -> None:
        """A future of the engine, until it ends or the time is over; they come in order."""
        adopted, coming = self._drawn(number)
        world = World(
            self._cluster,
            [*(each.job for each in adopted), *coming],
            self._config,
            replace(self.settings, epoch=self._now, until=self._until, seed=self._seed),
            state=self._objects.state(self._learnt),
            adopted=adopted,
            until_started=not self.all_time,
            stop=None if budget is None else budget.over,
        )
        self._engine.append((world.run(), not world.cut))

    @property
    def whole(self) -> bool:
        """Whether the engine has simulated all futures to their end."""
        return len(self._engine) == self.futures and all(complete for _, complete in self._engine)

    def found(self, *, engine: bool = True) -> Forecast:
        """What is known so far; without ``engine``, of the fast model alone."""
        runs = [run for run, _ in self._engine] if engine else []
        whole = engine and self.whole
        waiting = [at for at, each in enumerate(self.jobs) if each.elapsed is None]
        times = {at: [_began(run, at) for run in runs] for at in waiting} if whole else self._narrowed(waiting, runs)
        source, never = self._source(engine=engine), self._model.never if self._fast else {}
        starts = [_start(self.jobs[at], times[at], never, source) for at in waiting]
        done = sum(complete for _, complete in self._engine) if engine else 0
        return Forecast(starts, runs if whole else self._fast, self.jobs, done, whole, source)

    def _source(self, *, engine: bool) -> str:
        done = sum(complete for _, complete in self._engine)
        true = [f"{counted(done, 'future')} of the engine"] if done else []
        if engine and self.whole:
            return true[0]
        cut = [run.end for run, complete in self._engine if not complete and run.end > 0]
        true += [f"the first {end:,.0f} s of {'another' if done else 'a future of the engine'}" for end in cut]
        fast = f"{counted(len(self._fast), 'future')} of a fast model"
        if names := left_out(self._config, self._state):
            fast += f" without {', '.join(names)}"
        return f"{fast}, corrected by {' and '.join(true)}" if engine and true else fast

    def _narrowed(self, waiting: Sequence[int], engine: Sequence[Run]) -> dict[int, list[float]]:
        """Starts by job: the engine's where it has come so far, and the fast model's moved by its errors there."""
        errors: dict[str, list[float]] = {}
        for fast, true in zip(self._fast, engine, strict=False):
            for at in waiting:
                said, came = _began(fast, at), _began(true, at)
                # What has not started by the end of a future that was cut short starts later than that at least.
                if said < inf and min(said, came) <= true.end:
                    came = min(came, true.end)
                    errors.setdefault(self.jobs[at].job.queue, []).append((came + _LEAST_TIME) / (said + _LEAST_TIME))
        factors = {queue: percentile(found, 50) or 1.0 for queue, found in errors.items() if len(found) >= _FEWEST}
        starts: dict[int, list[float]] = {}
        for at in waiting:
            factor = factors.get(self.jobs[at].job.queue, 1.0)
            times = [_began(run, at) * factor for run in self._fast]
            times = [time if time <= self._until else inf for time in times]
            for number, run in enumerate(engine):
                began = _began(run, at)
                later = max(times[number], run.end) if number < len(times) else inf
                start = began if began < inf else later
                times[number : number + 1] = [start]
            starts[at] = times
        return starts


def run_sides(sides: Sequence[Side], budget: Budget | None, progress: Callable[[int, int], None] | None = None) -> None:
    """Simulate the same futures of one cluster or of several: the fast model's first, then the engine's, in turn."""
    futures = sides[0].futures
    for number in range(futures if budget is not None else 0):
        if budget is not None and number >= _FEWEST and budget.clock() >= budget.half:
            break
        for side in sides:
            side.run_fast(number)
    for number in range(futures):
        for side in sides:
            if budget is not None and budget.over():
                return
            side.run_engine(number, budget)
        if progress is not None:
            progress(len(sides) * (number + 1), len(sides) * futures)


def _began(run: Run, at: int) -> float:
    begun = run.outcomes[at].started
    return inf if begun is None else begun


def _start(job: LiveJobFacts, begun: Sequence[float], never: Mapping[str, str], source: str) -> Start:
    times = sorted(begun)

    def told(value: float | None) -> float | None:
        return None if value is None or value == inf else value

    # What comes is one more draw: it lies below the k-th of n with probability k / (n + 1), were the futures right.
    first, last = floor(LOW * (len(times) + 1)), ceil(HIGH * (len(times) + 1))
    low, high = times[max(first, 1) - 1], times[min(last, len(times)) - 1]
    chance = sum(time < inf for time in times) / len(times)
    key, queue, gpus = job.group.key, job.job.queue, job.job.gpu_demand / 1000
    median = told(percentile(times, 50))
    spread = told(low), told(high), chance, job.guess.known, tuple(times)
    return Start(key, queue, gpus, median, *spread, never.get(key, ""), source)


# How good estimated starts are: forecasts along a simulated workload, against what really came.
#
# The workload runs with its true run times. At chosen moments the cluster is looked at as if it were a live one:
# forecasts know only what the scheduler knows then. Each waiting job's true start is compared with its interval and its
# median.

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
        summary = figures_of(self.looked)
        summary["bySize"] = {size: figures_of([each for each in self.looked if each.size == size]) for size in sizes}
        return summary


def figures_of(looked: Sequence[Looked]) -> dict[str, Any]:
    """Figures of some jobs; those of which only "later" was said count apart, and have no error."""
    definite = [each for each in looked if not each.open]
    later = [each for each in looked if each.open]
    errors = [abs(each.said.median - each.true) for each in definite if each.said.median is not None]
    limits = [abs(each.by_limits - each.true) for each in definite if each.by_limits is not None]
    return {
        "estimates": len(definite),
        "coverage": mean([float(each.held) for each in definite]),
        "medianError": percentile(errors, 50),
        "medianErrorByLimits": percentile(limits, 50),
        "medianWait": percentile([each.true for each in definite], 50),
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
    budget: Callable[[], Budget] | None = None,
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
        budget: of each forecast; None: the engine alone.
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
            own = None if budget is None else budget()
            possible = forecast(objects, config, now, futures=futures, seed=settings.seed, budget=own, **common)
            limits = forecast(objects, config, now, by_limits=True, **common)
            by_limits = {start.key: start.median for start in limits.starts}
            selected = possible.starts[:most_jobs]
            seen.extend((world.now, until, start, by_limits.get(start.key)) for start in selected)
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
            objects.add(kinds.POD_GROUPS, [group])
            objects.add(kinds.PODS, pods)

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
    objects.add(kinds.NODES, [node for node in world.cluster.nodes if node.metadata.name in world.up])
    objects.add(kinds.HYPER_NODES, world.cluster.hyper_nodes)
    objects.add(kinds.RESERVATIONS, world.cluster.reservations)
    objects.add(kinds.TEMPORARY_QUOTAS, world.cluster.temporary_quotas)
    objects.add(kinds.FLOATING_RESOURCES, world.cluster.floating)
    tallies = world.state.catalogue.budgets.tallies
    objects.add(kinds.BUDGETS, [with_tally(one, tallies[one.metadata.name]) for one in world.cluster.budgets])
    objects.add(kinds.PRICE_LISTS, world.cluster.price_lists)
    queues = {queue.metadata.name: queue for queue in world.cluster.queues}
    for name in ("default", *sorted({job.queue for job in world.jobs})):
        queues.setdefault(name, make_queue(name))
    objects.add(kinds.QUEUES, queues.values())
    objects.add(
        kinds.PRIORITY_CLASSES, [priority_object(value) for value in sorted({job.priority for job in world.jobs} - {0})]
    )
    objects.add(kinds.POD_GROUPS, [live.group for live in world.live.values()])
    objects.add(kinds.PODS, [pod for live in world.live.values() for pod in live.pods])
    return objects
