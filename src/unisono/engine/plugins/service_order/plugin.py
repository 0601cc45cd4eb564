"""service-order: the job that has run least, or has least left, comes first, and jobs that come later make room for it.

Least attained service (LAS) needs no run times: M. Nuijens and A. Wierman, "The foreground-background queue" (2008);
with levels as in Tiresias (NSDI 2019), and within a level jobs of few GPUs first, then the oldest, or one after the
other. New small jobs would
pass wide ones by for ever, so from some level on the oldest jobs that need several nodes may hold a share of the
cluster first.
Shortest remaining time and service (SRTF, SRSF) go by run times that users state, or that earlier runs show. *Service*
is run time times GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, Key, Purpose, Reach
from unisono.engine.config.arguments import Argument, Shape, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.plugins.service_order.attained import Attained
from unisono.engine.plugins.service_order.line import Line
from unisono.engine.plugins.service_order.service import Levels, capacity_of, size_of
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

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

_IN_LEVELS = ("size", "turn", "line")
_RULES = ("attained-service", "remaining-service", "remaining-time", "time")
_RUNNING = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


class ServiceOrderPlugin(Plugin):
    """Orders jobs by service, and lets those that come first take the places of the others."""

    name = "service-order"
    order_reach = Reach.ROW
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
        found = self._keys.get(job.key)
        if found is None:
            found = self._keys[job.key] = self._key(job)
        return found

    def _key(self, job: JobState) -> tuple[float, ...]:
        if self.by == "attained-service":
            place = self._wide.get(job.key)
            if place is not None:
                return (-1, place)
            return self._level(job), *self._place(job)
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
        found: dict[str, int] = {}
        totals = {gpus: capacity_of(self.session, gpus=gpus) for gpus in (True, False)}
        room = {gpus: self.wide_share * total for gpus, (total, _) in totals.items()}
        wide = [job for job in self.session.jobs if self._is_wide(job, totals)]
        for job in sorted(wide, key=lambda job: (job.created, job.key)):
            size, gpus = size_of(job)
            room[gpus] -= size
            if room[gpus] >= 0:
                found[job.key] = len(found)
        return found

    def _is_wide(self, job: JobState, totals: Mapping[bool, tuple[float, float]]) -> bool:
        """It needs several nodes, has come far enough, and waits or runs."""
        size, gpus = size_of(job)
        if size <= totals[gpus][1] or self._level(job) < self.wide_level:
            return False
        return bool(job.record.pending) or any(job.record.counts[status] for status in _RUNNING)

    # ---- who makes room

    @cached_property
    def _last(self) -> Key:
        """The key of the running job that comes last."""
        running = (job for job in self.session.jobs if any(job.record.counts[status] for status in _RUNNING))
        return max((self.job_key(job) for job in running), default=(-inf, 0.0))

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
    if not pending or any(job.record.counts[status] for status in _RUNNING):
        return 0.0, job.created
    return 1.0, max(task.created for task in pending.values())
