"""service-order: the job that has run least, or has least left, comes first, and jobs that come later make room for it.

Least attained service (LAS) needs no run times: M. Nuijens and A. Wierman, "The foreground-background queue" (2008);
with levels as in Tiresias (NSDI 2019), and jobs of few GPUs
first within a level. Shortest remaining time and service (SRTF, SRSF) go by run times that users
state, or that earlier runs show. *Service* is run time times GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import floor, inf, log
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import GPU_COUNT, GPU_MILLI, NVIDIA_GPU
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, Key, Purpose, Reach
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.plugins.service_order.attained import Attained
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
_FIRST = Argument("service-order.firstLevel", "float", 36000.0, "GPU-seconds of the first level of attained service")
_FACTOR = Argument(
    "service-order.levelFactor", "float", 4.0, "each level reaches so many times as far as the one before"
)
_PREEMPT = Argument("service-order.preempt", "bool", True, "jobs that come later are evicted; false: they only wait")

_RULES = ("attained-service", "remaining-service", "remaining-time", "time")
_RUNNING = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


class ServiceOrderPlugin(Plugin):
    """Orders jobs by service, and lets those that come first take the places of the others."""

    name = "service-order"
    order_reach = Reach.ROW
    known_arguments = (_BY, _LEARN, _FIRST, _FACTOR, _PREEMPT)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.by = str(argument_value(_BY, self.arguments))
        if self.by not in _RULES:
            raise ConfigError(f"{_BY.key} must be one of {', '.join(_RULES)}, not {self.by}")
        self.first = float(argument_value(_FIRST, self.arguments))
        self.factor = float(argument_value(_FACTOR, self.arguments))
        if self.first <= 0 or self.factor <= 1:
            raise ConfigError(f"{_FIRST.key} must be above 0 and {_FACTOR.key} above 1")
        self.preempt = bool(argument_value(_PREEMPT, self.arguments)) and self.by != "time"

    def open(self, session: Session) -> None:
        """Take note of who runs."""
        self.session = session
        self.attained = session.snapshot.memo.of(Attained, Attained)
        self.attained.look(session)
        self.estimates = RunEstimates(session, learned=bool(argument_value(_LEARN, self.arguments)))
        self._keys: dict[str, tuple[float, float]] = {}

    # ---- order

    def job_key(self, job: JobState) -> Key:
        """Less service first; fixed for the session."""
        found = self._keys.get(job.key)
        if found is None:
            found = self._keys[job.key] = self._key(job)
        return found

    def _key(self, job: JobState) -> tuple[float, float]:
        ran = self.attained.seconds(job, self.session.now)
        if self.by == "attained-service":
            gpus = _gpus(job)
            service = ran * gpus
            level = floor(log(service / self.first, self.factor)) + 1 if service >= self.first else 0
            return level, gpus
        seconds = max((self.estimates.seconds(task) for task in job.record.tasks.values()), default=0.0)
        if not seconds:
            return inf, 0.0
        left = seconds if self.by == "time" else max(seconds - ran, 0.0)
        return left * _gpus(job) if self.by == "remaining-service" else left, 0.0

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


def _gpus(job: JobState) -> float:
    """GPUs of all its pods, parts counted as such; cores where it asks for none."""
    gpus = cores = 0.0
    for task in job.record.tasks.values():
        asked = task.pod_class.requests
        gpus += asked.get(NVIDIA_GPU, 0) / 1000
        gpus += asked.get(GPU_MILLI, 0) / 1_000_000 * max(asked.get(GPU_COUNT, 0) / 1000, 1)
        cores += asked.get("cpu", 0) / 1000
    return gpus or max(cores, 1.0)
