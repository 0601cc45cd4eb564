"""Tells what is wrong with a new configuration, and what else its writer should know, where they look: as events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.core import ObjectReference
from unisono.cluster.recent import Setback
from unisono.cluster.records import Job
from unisono.kube.clock import Clock
from unisono.kube.events import EventRecorder
from unisono.kube.pace import Backoff
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.settings import ConfigSource

_AGAIN_SECONDS = 600.0
"""Events go after an hour; one that is refused is told again before."""


class ConfigNotices:
    """Events about the configuration, one for each change of what there is to tell."""

    def __init__(
        self, source: ConfigSource, events: EventRecorder, metrics: Metrics, otherwise: ObjectReference
    ) -> None:
        """Make one; ``otherwise`` is what events are about where the source is no object of the API server."""
        self._source, self._events, self._metrics, self._otherwise = source, events, metrics, otherwise
        self._told: tuple[str, tuple[str, ...], str] = ("", (), "")
        self._again = 0.0

    def tell(self, notes: tuple[str, ...], now: float) -> None:
        """Tell what has changed since the last time, and again from time to time that the newest one is refused.

        Args:
            notes: on what is in force.
            now: seconds of a clock that only goes on.

        """
        facts = (self._source.error, notes, self._source.name)
        self._metrics.config_refused.set(1.0 if facts[0] else 0.0)
        if facts == self._told and not (facts[0] and now >= self._again):
            return
        (before, earlier, name), first, self._told = self._told, facts != self._told, facts
        where = self._source.reference or self._otherwise
        if facts[0]:
            self._again = now + _AGAIN_SECONDS
            self._metrics.config_errors.inc(first)
            problem = f"{facts[0]} (the one before it stays in force)"
            self._events.event(where, "Warning", "ConfigurationRefused", problem)
            return
        if before or (name != facts[2] and self._source.reference is not None):
            self._events.event(where, "Normal", "ConfigurationAccepted", "The newest configuration is in force.")
        if notes and notes != earlier:
            self._events.event(where, "Normal", "ConfigurationNote", "; ".join(notes))


# Jobs for which a plug-in fails again and again: they are asked about less and less often.

FAILURES = 3
"""Cycles in a row in which a plug-in fails for a job, until the job waits."""


@dataclass(slots=True)
class _Failing:
    """One job: how often in a row, what for, in which state, and until when it waits (monotonic and epoch seconds)."""

    failures: int
    why: str
    state: Any
    until: float = 0.0
    resumes: float = 0.0


class PluginFailures:
    """Counts cycles in which a plug-in failed for a job; from the third one on the job waits between its attempts.

    A job that changes (its pods, what they ask for, its queue or minimum) is tried at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[str, _Failing] = {}
        self._backoff = Backoff(base=1.0, cap=60.0)

    def take(self, failed: Mapping[str, str], jobs: Mapping[str, Job]) -> int:
        """Take in the jobs that a plug-in failed for in a cycle, and why; answers how many of them wait from now on."""
        now, begun = self._clock.monotonic(), 0
        kept = {key: one for key, one in self._failing.items() if key in jobs and (key in failed or one.until > now)}
        for key, why in failed.items():
            if key not in jobs:
                continue
            state = _state(jobs[key])
            one = kept.get(key)
            if one is None or one.state != state:
                one = kept[key] = _Failing(0, why, state)
            one.failures, one.why = one.failures + 1, why
            if one.failures >= FAILURES:
                wait = self._backoff.delay(one.failures - FAILURES + 1)
                one.until, one.resumes = now + wait, self._clock.time() + wait
                begun += 1
        self._failing = kept
        return begun

    def setbacks(self, jobs: Mapping[str, Job]) -> dict[str, Setback]:
        """Jobs that wait now, for the next decisions."""
        now = self._clock.monotonic()
        return {
            key: Setback(one.failures, one.why, True, one.resumes, one.resumes, plugin=True)
            for key, one in self._failing.items()
            if one.until > now and key in jobs and _state(jobs[key]) == one.state
        }

    def next_release(self) -> float | None:
        """Monotonic time at which the next job that waits is tried again."""
        now = self._clock.monotonic()
        return min((one.until for one in self._failing.values() if one.until > now), default=None)


def _state(job: Job) -> Any:
    """What a plug-in may be asked about of a job."""
    pods = frozenset((task.uid, task.pod_class.id) for task in job.pending.values())
    return job.uid, job.queue, job.min_member, job.priority_class, pods
