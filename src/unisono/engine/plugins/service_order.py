"""priority, sla and service-order: which job comes first."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import floor, inf, log
from typing import TYPE_CHECKING, Self

import numpy as np

from unisono.api.keys import GPU_COUNT, GPU_MILLI, NVIDIA_GPU, SLA_WAITING_TIME
from unisono.api.times import duration_or_none, rfc3339
from unisono.cluster.interning import Memory
from unisono.cluster.records import Job, Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, Key, Purpose, Reach, Vote
from unisono.engine.config.arguments import Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.job_state import JobState
from unisono.engine.session.run_times import RunEstimates
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.sub_groups import SubGroup
    from unisono.engine.session.victims import VictimJobs

# priority and sla: jobs of higher priority come first, and those that have waited for too long.


# priority: higher priority first, and only lower priority is preempted. No arguments.


class PriorityPlugin(Plugin):
    """Orders tasks by pod priority and jobs by the priority of their PodGroup."""

    name = "priority"
    by_shape = True
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Keep the session: victims are looked up by job."""
        self.session = session

    def job_key(self, job: JobState) -> Key:
        """Higher PriorityClass value first."""
        return -job.priority

    def task_key(self, task: Task) -> Key:
        """Higher pod priority first."""
        return -task.priority

    def group_key(self, group: SubGroup) -> Key:
        """Sub-groups with the most important task first."""
        return -group.priority

    def starving(self, job: JobState) -> bool:
        """Some of its pods hold no place yet."""
        return job.ready_count + job.waiting_count < job.size

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks of jobs with strictly lower priority; within the actor's own job, tasks with a lower one."""
        if purpose is Purpose.GANG_RECLAIM:
            return np.ones(len(candidates), dtype=np.bool_)
        if purpose not in (Purpose.PREEMPT, Purpose.GANG_PREEMPT):
            return None
        return np.array([self._lower(actor, task, other) for other in candidates], dtype=np.bool_)

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs of lower priority, and the actor's own."""
        if purpose not in (Purpose.PREEMPT, Purpose.GANG_PREEMPT):
            return None
        lower = np.asarray(jobs.priority < actor.priority)
        own = jobs.number.get(actor.key)
        if own is not None:
            lower[own] = True
        return lower

    def _lower(self, actor: JobState, task: Task | None, other: Task) -> bool:
        if other.job == actor.key:
            return task is not None and other.priority < task.priority
        job = self.session.job(other.job)
        return job is not None and job.priority < actor.priority


# sla: a job that has waited too long is admitted, and keeps the places that it could get so far.
#
# List it in an earlier tier than the plug-ins that would refuse: a refusal within a tier wins, a permit ends the walk.

_WAITING = Argument("sla-waiting-time", "duration", None, "how long any job may wait")
_KEYS = (SLA_WAITING_TIME, "sla-waiting-time")


class SlaPlugin(Plugin):
    """Serves jobs with a limit on their waiting time before others, the next deadline first."""

    name = "sla"
    permits_only = True
    known_arguments = (_WAITING,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.limit = _positive(argument_value(_WAITING, self.arguments))

    def open(self, session: Session) -> None:
        """Remember the time."""
        self.session = session
        self._evictions: Counter[str] = Counter()

    def deadline(self, job: JobState) -> float | None:
        """When the job has waited too long, seconds since the epoch; None without a limit."""
        limit = _of_job(job.record.annotations)
        limit = self.limit if limit is None else limit
        return None if limit is None else job.created + limit

    def job_key(self, job: JobState) -> Key:
        """Jobs with a deadline first, the earliest of them first."""
        deadline = self.deadline(job)
        return (1, 0.0) if deadline is None else (0, deadline)

    def enqueueable(self, job: JobState) -> Vote:
        """Permit once the deadline has passed."""
        return self._late(job)

    def pipelined(self, job: JobState) -> Vote:
        """Permit once the deadline has passed: no other job gets the places that the job has found in this cycle.

        Never for places that others would be evicted from: without the whole gang they would go for nothing.
        """
        return Vote.ABSTAIN if self._evictions[job.key] else self._late(job)

    def _late(self, job: JobState) -> Vote:
        deadline = self.deadline(job)
        return Vote.ABSTAIN if deadline is None or self.session.now < deadline else Vote.PERMIT

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Count what is being evicted for the job that is served."""
        subject = self.session.subject
        if subject is not None and TaskStatus.RELEASING in (before, after):
            self._evictions[subject.key] += len(tasks) if after is TaskStatus.RELEASING else -len(tasks)


def end_of_waiting(plugins: Iterable[Plugin], job: JobState) -> str:
    """When plug-in sla will act for a job that waits for room, in words; empty without a limit on its waiting."""
    ends = next((one.deadline(job) for one in plugins if isinstance(one, SlaPlugin)), None)
    if ends is None:
        return ""
    return (
        f"its sla-waiting-time ends at {rfc3339(ends)}: from then on it is admitted and keeps the places that it finds"
    )


def _of_job(annotations: Mapping[str, str]) -> float | None:
    for key in _KEYS:
        if key in annotations:
            return _positive(annotations[key])
    return None


def _positive(text: str | None) -> float | None:
    """Seconds; an unreadable limit, or one that is not positive, is none."""
    limit = duration_or_none(text)
    return limit if limit is not None and limit > 0 else None


# service-order: which job comes first by how long it has run, or has still to run; the last ones make room.


# Service: what a job asks for times how long it has run, and the levels that it passes through as it runs.

_SIZE = "service-order.size"


def gpus_of(amounts: Mapping[str, int]) -> float:
    """GPUs among amounts in the engine's units, parts counted as such."""
    whole = amounts.get(NVIDIA_GPU, 0) / 1000
    return whole + amounts.get(GPU_MILLI, 0) / 1_000_000 * max(amounts.get(GPU_COUNT, 0) / 1000, 1)


def size_of(job: JobState) -> tuple[float, bool]:
    """GPUs of all its pods, and whether it asks for any; cores (1 at least) where it does not."""
    size: tuple[float, bool] | None = job.record.derived.get(_SIZE)
    if size is None:
        gpus = cores = 0.0
        for task in job.record.tasks.values():
            asked = task.pod_class.requests
            gpus += gpus_of(asked)
            cores += asked.get("cpu", 0) / 1000
        size = job.record.derived[_SIZE] = (gpus, True) if gpus else (max(cores, 1.0), False)
    return size


def capacity_of(session: Session, *, gpus: bool) -> tuple[float, float]:
    """GPUs, or cores, of all nodes that can be used, and the most of any node."""
    total, nodes, registry = session.usable_total, session.nodes.allocatable, session.registry
    units = {NVIDIA_GPU: 1000, GPU_MILLI: 1_000_000} if gpus else {"cpu": 1000}
    there = 0.0
    each = np.zeros(session.nodes.size)
    for name, unit in units.items():
        row = registry.find(name)
        if row is not None and row < len(total):
            there += int(total[row]) / unit
            each += nodes[row] / unit
    return there, float(each.max(initial=0.0))


class Levels:
    """Levels of service, each of which ends where the next one begins.

    Args:
        ends: GPU-seconds at which levels end, growing; the last level has no end.
        factor: how many times as far each level after ``ends`` reaches as the one before; 0.0: there are none.
    """

    def __init__(self, ends: Sequence[float], factor: float = 0.0) -> None:
        self.ends, self.factor = tuple(ends), factor

    def of(self, service: float) -> int:
        """The level of a job that has had so much, 0 for the first."""
        level = bisect_right(self.ends, service)
        if not self.factor or level < len(self.ends):
            return level
        return level + floor(log(service / self.ends[-1], self.factor))


# How long jobs have run so far, over all of their attempts, kept from cycle to cycle.

_HELD = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)
_BINDING, _BOUND, _RUNS = map(int, _HELD)


@dataclass(slots=True)
class _Life:
    """Seconds of ended attempts; when the present one began, and until when it was seen (0.0: none)."""

    uid: str
    ended: float = 0.0
    began: float = 0.0
    seen: float = 0.0

    def close(self) -> None:
        if self.began:
            self.ended += max(self.seen - self.began, 0.0)
        self.began = self.seen = 0.0


class Attained(Memory):
    """Run times by job. A scheduler that has just started knows the present attempts only."""

    def __init__(self) -> None:
        self._lives: dict[str, _Life] = {}
        self._at = -1.0

    def copy(self) -> Self:
        """One that is changed apart."""
        fresh = super().copy()
        fresh._lives = {key: copy(life) for key, life in self._lives.items()}
        return fresh

    def look(self, session: Session) -> None:
        """Take note of who runs now."""
        if session.now == self._at:
            return
        self._at = session.now
        lives, jobs = self._lives, session.snapshot.jobs
        for key, record in jobs.items():
            life = lives.get(key)
            if life is None or life.uid != record.uid:
                life = lives[key] = _Life(record.uid)
            began = _began(record) if _holds(record) else 0.0
            if began != life.began:
                life.close()
                life.began = began
            if began:
                life.seen = session.now
        if len(lives) > len(jobs):
            self._lives = {key: life for key, life in lives.items() if key in jobs}

    def ended(self, job: JobState) -> float | None:
        """For how long attempts ran that have ended, where none runs now; None where one does."""
        life = self._lives.get(job.key)
        return 0.0 if life is None else None if life.began else life.ended

    def seconds(self, job: JobState, now: float) -> float:
        """For how long the job has run, up to now where it runs."""
        life = self._lives.get(job.key)
        if life is None:
            return 0.0
        return life.ended + (max(now - life.began, 0.0) if life.began else 0.0)


def _holds(record: Job) -> bool:
    """Whether any of its pods holds a place."""
    counts = record.counts
    return bool(counts[_BINDING] or counts[_BOUND] or counts[_RUNS])


def _began(record: Job) -> float:
    """When the present attempt began: when the last of its pods got its place."""
    return max(
        (task.since or task.created for task in record.tasks.values() if task.status in _HELD and task.node),
        default=0.0,
    )


# Places in the line of a level: who runs, then who was evicted, the last first, then who came in and has not run yet.
#
# A job that comes into a level, from outside or from the level before, stands at the end of its line, even if it runs:
# those that wait there come first. So the levels of the simulator that was published with Muri (SIGCOMM 2022) work.


@dataclass(slots=True)
class _Stand:
    """Where a job stands: its level, since when, since when it has run there (0.0: not yet), and whether it does."""

    uid: str
    level: int
    since: float
    began: float = 0.0
    runs: bool = False


class Line(Memory):
    """Stands by job, kept from cycle to cycle; a scheduler that has just started knows who runs and who waits."""

    def __init__(self) -> None:
        self._stands: dict[str, _Stand] = {}
        self._at = -1.0

    def copy(self) -> Self:
        """One that is changed apart."""
        fresh = super().copy()
        fresh._stands = {key: copy(stand) for key, stand in self._stands.items()}
        return fresh

    def look(self, session: Session, level_of: Callable[[JobState], int]) -> None:
        """Take note of levels now."""
        if session.now == self._at:
            return
        fresh = self._at < 0
        self._at = session.now
        stands: dict[str, _Stand] = {}
        for job in session.jobs:
            level, stand = level_of(job), self._stands.get(job.key)
            if stand is None or stand.uid != job.record.uid:
                stand = _Stand(job.record.uid, level, job.created)
                if fresh and _runs(job):
                    stand.began, stand.runs = job.created, True
            elif stand.level != level:
                stand = _Stand(stand.uid, level, session.now)
            else:
                runs = _runs(job)
                if runs and not stand.runs:
                    stand.began = session.now
                stand.runs = runs
            stands[job.key] = stand
        self._stands = stands

    def place(self, job: JobState) -> tuple[float, float]:
        """Less comes first."""
        stand = self._stands.get(job.key)
        if stand is None:
            return 2.0, job.created
        if not stand.began:
            return 2.0, stand.since
        if _runs(job):
            return 0.0, stand.began
        return 1.0, -max((task.created for task in job.record.pending.values()), default=0.0)


def _runs(job: JobState) -> bool:
    return not job.record.pending or _holds(job.record)


# service-order: the job that has run least, or has least left, comes first, and jobs that come later make room for it.
#
# Least attained service (LAS) needs no run times: M. Nuijens and A. Wierman, "The foreground-background queue" (2008);
# with levels as in Tiresias (NSDI 2019), and within a level jobs of few GPUs first, then the oldest, or one after the
# other. New small jobs would pass wide ones by for ever, so from some level on the oldest jobs that need several nodes
# may hold a share of the cluster first. Shortest remaining time and service (SRTF, SRSF) go by run times that users
# state, or that earlier runs show. *Service* is run time times GPUs.

_BY = Argument(
    "service-order.by", "text", "attained-service", "attained-service, remaining-service, remaining-time or time"
)
_LEARN = Argument(
    "service-order.learnRunTimes", "bool", False, "expect jobs to run as long as the last two of their kind"
)
_LEVELS = Argument(
    "service-order.levels",
    "list",
    [7200, 18000, 36000, 90000, 180000, 432000, 2520000, 16920000],
    "GPU-seconds at which levels of attained service end",
    shape=Shape("list", each=Shape("float", right=lambda value: value > 0, form="GPU-seconds above 0")),
)
_WIDE_LEVEL = Argument(
    "service-order.wideLevel",
    "int",
    6,
    "from this level on, jobs that need several nodes come before all others, the oldest first; -1: none do",
)
_WIDE_SHARE = Argument("service-order.wideShare", "float", 0.5, "share of the cluster that such jobs may hold so")
_FIRST = Argument(
    "service-order.firstLevel", "float", 36000.0, "GPU-seconds of the first level, in place of the list of levels"
)
_FACTOR = Argument(
    "service-order.levelFactor", "float", 4.0, "each level reaches so many times as far, in place of the list of levels"
)
_IN_LEVEL = Argument(
    "service-order.inLevel",
    "text",
    "size",
    "who comes first in a level: size (few GPUs, then the oldest), turn (who runs, then who has waited longest) "
    "or line (who runs, then who was evicted last, and who has just come into the level last)",
)
_PREEMPT = Argument("service-order.preempt", "bool", True, "jobs that come later are evicted; false: they only wait")

_LEFT = "service-order.left"
"""Under this name a job's record notes what is left of it while it waits."""

_IN_LEVELS = ("size", "turn", "line")
_RULES = ("attained-service", "remaining-service", "remaining-time", "time")


class ServiceOrderPlugin(Plugin):
    """Orders jobs by service, and lets those that come first take the places of the others."""

    name = "service-order"
    order_reach = Reach.ROW
    by_rank = True
    known_arguments = (_BY, _LEARN, _LEVELS, _WIDE_LEVEL, _WIDE_SHARE, _FIRST, _FACTOR, _IN_LEVEL, _PREEMPT)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.by = str(argument_value(_BY, self.arguments))
        if self.by not in _RULES:
            raise ConfigError(f"{_BY.key} must be one of {', '.join(_RULES)}, not {self.by}")
        self.in_level = str(argument_value(_IN_LEVEL, self.arguments))
        if self.in_level not in _IN_LEVELS:
            raise ConfigError(f"{_IN_LEVEL.key} must be one of {', '.join(_IN_LEVELS)}, not {self.in_level}")
        self.levels = self._read_levels()
        self.wide_level = int(argument_value(_WIDE_LEVEL, self.arguments))
        self.wide_share = float(argument_value(_WIDE_SHARE, self.arguments))
        if not 0 <= self.wide_share <= 1:
            raise ConfigError(f"{_WIDE_SHARE.key} must be from 0 to 1")
        self.preempt = bool(argument_value(_PREEMPT, self.arguments)) and self.by != "time"

    def _read_levels(self) -> Levels:
        if _FIRST.key in self.arguments or _FACTOR.key in self.arguments:
            first, factor = (float(argument_value(argument, self.arguments)) for argument in (_FIRST, _FACTOR))
            if first <= 0 or factor <= 1:
                raise ConfigError(f"{_FIRST.key} must be above 0 and {_FACTOR.key} above 1")
            return Levels((first,), factor)
        ends = argument_value(_LEVELS, self.arguments)
        numbers = all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends)
        if not numbers or any(low >= high for low, high in pairwise((0, *ends))):
            raise ConfigError(f"{_LEVELS.key} must be numbers above 0 that grow, not {ends}")
        return Levels([float(end) for end in ends])

    def open(self, session: Session) -> None:
        """Take note of who runs."""
        self.session = session
        self.attained = session.snapshot.memo.of(Attained, Attained)
        self.attained.look(session)
        self.estimates = RunEstimates(session, learned=bool(argument_value(_LEARN, self.arguments)))
        self.line = session.snapshot.memo.of(Line, Line)
        if self.in_level == "line":
            self.line.look(session, self._level)
        self._keys: dict[str, tuple[float, ...]] = {}

    # ---- order

    def job_key(self, job: JobState) -> Key:
        """Less service first; fixed for the session."""
        order_key = self._keys.get(job.key)
        if order_key is None:
            order_key = self._keys[job.key] = self._key(job)
        return order_key

    def _key(self, job: JobState) -> tuple[float, ...]:
        if self.by == "attained-service":
            place = self._wide.get(job.key)
            if place is not None:
                return (-1, place)
            return self._level(job), *self._place(job)
        ended = None if self.estimates.learned else self.attained.ended(job)
        if ended is None:
            return self._left(job)
        like = _LEFT, self.by, ended, self.estimates.stamp
        order_key: tuple[float, ...] | None = job.record.derived.get(like)
        if order_key is None:
            order_key = job.record.derived[like] = self._left(job)
        return order_key

    def _left(self, job: JobState) -> tuple[float, ...]:
        """Run time or service that is left, as far as is known; of a job that waits it stays until its pods change."""
        seconds = max((self.estimates.seconds(task) for task in job.record.tasks.values()), default=0.0)
        if not seconds:
            return inf, 0.0
        left = seconds if self.by == "time" else max(seconds - self.attained.seconds(job, self.session.now), 0.0)
        return left * size_of(job)[0] if self.by == "remaining-service" else left, 0.0

    def _place(self, job: JobState) -> tuple[float, float]:
        """Who comes first in a level."""
        if self.in_level == "line":
            return self.line.place(job)
        return _turn(job) if self.in_level == "turn" else (size_of(job)[0], job.created)

    def _level(self, job: JobState) -> int:
        return self.levels.of(self.attained.seconds(job, self.session.now) * size_of(job)[0])

    @cached_property
    def _wide(self) -> dict[str, int]:
        """Place in line of the jobs that come before all others, as far as the share reaches: the oldest wide ones.

        Jobs with GPUs and jobs without are counted apart.
        """
        if not self.wide_share or self.wide_level < 0:
            return {}
        places: dict[str, int] = {}
        totals = {gpus: capacity_of(self.session, gpus=gpus) for gpus in (True, False)}
        room = {gpus: self.wide_share * total for gpus, (total, _) in totals.items()}
        wide = [job for job in self.session.jobs if self._is_wide(job, totals)]
        for job in sorted(wide, key=lambda job: (job.created, job.key)):
            size, gpus = size_of(job)
            room[gpus] -= size
            if room[gpus] >= 0:
                places[job.key] = len(places)
        return places

    def _is_wide(self, job: JobState, totals: Mapping[bool, tuple[float, float]]) -> bool:
        """It needs several nodes, has come far enough, and waits or runs."""
        size, gpus = size_of(job)
        if size <= totals[gpus][1] or self._level(job) < self.wide_level:
            return False
        return bool(job.record.pending) or _holds(job.record)

    # ---- who makes room

    @cached_property
    def _last(self) -> Key:
        """The key of the running job that comes last."""
        running = [key for key, record in self.session.snapshot.jobs.items() if _holds(record)]
        states = (job for key in running if (job := self.session.job(key)) is not None)
        return max(map(self.job_key, states), default=(-inf, 0.0))

    def starving(self, job: JobState) -> bool:
        """It waits, and some running job comes later."""
        waits = job.ready_count + job.waiting_count < job.size
        return self.preempt and waits and self.job_key(job) < self._last

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks of jobs that come later."""
        if purpose not in (Purpose.PREEMPT, Purpose.GANG_PREEMPT):
            return None
        key = self.job_key(actor)
        return np.array([self.preempt and self._comes_later(key, actor, other) for other in candidates], dtype=np.bool_)

    def _comes_later(self, key: Key, actor: JobState, other: Task) -> bool:
        job = self.session.job(other.job) if other.job != actor.key else None
        return job is not None and bool(key < self.job_key(job))


def _turn(job: JobState) -> tuple[float, float]:
    """Jobs that run keep their places; the others stand in line, and one that was evicted at its end."""
    pending = job.record.pending
    if not pending or _holds(job.record):
        return 0.0, job.created
    return 1.0, max(task.created for task in pending.values())
