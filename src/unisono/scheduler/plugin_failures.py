"""Jobs for which a plug-in fails again and again: they are asked about less and less often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unisono.cluster.recent import Setback
from unisono.cluster.records import Job
from unisono.kube.clock import Clock
from unisono.kube.pace import Backoff

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
