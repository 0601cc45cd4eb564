"""removeFailedPods: deletes pods that have failed, so that they no longer stand beside those made in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.cluster.records import Failure, Task
from unisono.cluster.status import READY_STATES, TaskStatus, count
from unisono.engine.plugins.rescheduling.common import Spares
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

NAME = "removeFailedPods"
_CRITICAL = 2_000_000_000
"""Value of ``system-cluster-critical``."""
_LISTS = ("reasons", "excludeOwnerKinds")
_NUMBERS = ("minPodLifetimeSeconds", "thresholdPriority")
_KNOWN = ("excludeOwnerKinds", "includingInitContainers", "minPodLifetimeSeconds", "reasons", "thresholdPriority")


@dataclass(frozen=True, slots=True)
class FailedPods:
    """The strategy.

    Attributes:
        reasons: of the pod or its containers, one of which it must have; empty: any.
        init: reasons of init containers count, too.
        excluded: pods with an owner of these kinds stay.
        seconds: pods that were made less than so long ago stay.
        below: pods of this priority and above stay.

    """

    reasons: frozenset[str]
    init: bool
    excluded: frozenset[str]
    seconds: float
    below: int

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> FailedPods:
        """From ``params``; raises ConfigError that names the key."""
        for key, value in params.items():
            if key not in _KNOWN:
                raise ConfigError(f"rescheduling: {NAME} has no parameter {key}; it has {', '.join(_KNOWN)}")
            if key in _LISTS and not (isinstance(value, list) and all(isinstance(one, str) and one for one in value)):
                raise ConfigError(f"rescheduling: {NAME}: {key} must be a list of words, such as [Evicted]")
            if key == "includingInitContainers" and not isinstance(value, bool):
                raise ConfigError(f"rescheduling: {NAME}: {key} must be true or false")
            if key in _NUMBERS and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"rescheduling: {NAME}: {key} must be a whole number without quotes")
        seconds = params.get("minPodLifetimeSeconds", 0)
        if seconds < 0:
            raise ConfigError(f"rescheduling: {NAME}: minPodLifetimeSeconds must not be negative")
        return cls(
            frozenset(params.get("reasons", ())),
            params.get("includingInitContainers", False),
            frozenset(params.get("excludeOwnerKinds", ())),
            float(seconds),
            params.get("thresholdPriority", _CRITICAL),
        )

    def choose(self, session: Session, candidates: Sequence[Task], _: Spares) -> list[Task]:
        """Which of the failed pods to delete, in order of their keys; they hold no place that a gang could miss."""
        left: dict[str, int] = {}
        chosen: list[Task] = []
        for task in sorted(candidates, key=lambda task: task.key):
            job = session.job(task.job)
            if job is None or task.failure is None or not self._names(session, task, task.failure):
                continue
            spare = left.setdefault(job.key, _spare(job))
            if spare > 0:
                left[job.key] = spare - 1
                chosen.append(task)
        return chosen

    def _names(self, session: Session, task: Task, failure: Failure) -> bool:
        if task.priority >= self.below or not task.remade or failure.policies or failure.owners & self.excluded:
            return False
        found = failure.reasons | failure.init_reasons if self.init else failure.reasons
        return session.now - task.created >= self.seconds and (not self.reasons or bool(found & self.reasons))


def _spare(job: JobState) -> int:
    """How many failed pods a job can do without.

    While pods of a gang hold places, failed ones count as its members, so that those are not given up (see
    `unisono.scheduler.gangs`): what follows from a failure is for the job's own controller to say. Only what is beyond
    the minimum may go then.
    """
    failed = job.counts[TaskStatus.FAILED]
    ready = count(job.counts, READY_STATES)
    if job.min_member <= 1 or not ready:
        return failed
    return max(0, min(failed, ready + failed - job.min_member))
