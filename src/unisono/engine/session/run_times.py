"""How long pods run, as far as it is stated or earlier runs show."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from unisono.api.annotations import DEFAULT_RUN_TIME, MAX_RUN_TIME, RUN_SECONDS
from unisono.api.queues import run_times_of
from unisono.api.selecting import lineage
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job, Task

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

_STEPS = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18000.0, 36000.0, 72000.0, 180000.0, 360000.0)
"""By how much a prediction grows that has turned out too short: Tsafrir, Etsion and Feitelson (2007)."""

RUNS = "run-times.longest"
"""Under this name it is kept how long a job's waiting pods run at most, and jobs stand in that order."""

_LIMITS = (MAX_RUN_TIME, DEFAULT_RUN_TIME)


@dataclass(slots=True)
class RunLimits:
    """How long queues let pods run, and expect them to run that do not say it; lives in the state's memo.

    Attributes:
        serial: moves when any of it has changed, so that it tells what was worked out with it.
    """

    serial: int = 0
    _read: list[tuple[str, str, list[str]]] = field(default_factory=list)
    _texts: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _parents: dict[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, str, str], tuple[float, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, session: Session) -> RunLimits | None:
        """What the queues say; None where they say nothing."""
        if not session.snapshot.calendar.limiting:
            return None
        limits = session.snapshot.memo.of(cls, cls)
        limits._follow(session)
        return limits

    def _follow(self, session: Session) -> None:
        records = [queue.record for queue in session.queues.values()]
        read = [(one.name, one.parent, [one.annotations.get(key, "") for key in _LIMITS]) for one in records]
        if read != self._read:
            self.serial += 1
            self._read = read
            self._texts = {one.name: one.annotations for one in records}
            self._parents = {one.name: one.parent for one in records}
            self._known.clear()

    def most(self, record: Job) -> tuple[float, str]:
        """Seconds after which a job's pods are evicted, and the queue that says so; 0.0 where none does."""
        return self._least(MAX_RUN_TIME, record)

    def expected(self, record: Job) -> float:
        """Seconds that a job's pods are expected to run which do not say it; 0.0 where no queue says so."""
        return self._least(DEFAULT_RUN_TIME, record)[0]

    def _least(self, key: str, record: Job) -> tuple[float, str]:
        """The least of what the queue and those above it say, for the job's PriorityClass or for all."""
        place = key, record.queue, record.priority_class
        least = self._known.get(place)
        if least is None:
            said: list[tuple[float, str]] = []
            for name in lineage(record.queue, self._parents):
                with suppress(ValueError):  # where no admission looks at it; such a text counts as absent
                    times = run_times_of(self._texts.get(name, {}).get(key, ""))
                    seconds = times.get(record.priority_class, times.get("", 0.0))
                    said += [(seconds, name)] if seconds else []
            least = self._known[place] = min(said, default=(0.0, ""))
        return least


class RunEstimates:
    """Estimates of one session; with ``learned`` also from earlier runs.

    Attributes:
        limits: what queues say of run times; None where they say nothing.
        stamp: tells apart what is kept from cycle to cycle, by these.
    """

    def __init__(self, session: Session, *, learned: bool) -> None:
        self.session = session
        self.learned = learned
        self._longest: dict[object, Any] = {}
        self.limits = RunLimits.of(session)
        self.stamp = self.limits.serial if self.limits is not None else 0

    def stated(self, task: Task) -> float:
        """Seconds that the pod, its PodGroup or its queue says it runs at most; 0.0 when none of them does."""
        if self.limits is None:
            return self._own(task)
        own, job = self._own(task), self.session.snapshot.jobs.get(task.job)
        if job is None:
            return own
        most, expected = self.limits.most(job)[0], self.limits.expected(job)
        return min([seconds for seconds in (own or expected, most) if seconds], default=0.0)

    def _own(self, task: Task) -> float:
        if task.run_seconds:
            return task.run_seconds
        job = self.session.snapshot.jobs.get(task.job)
        if job is None:
            return 0.0
        seconds: float | None = job.derived.get(RUN_SECONDS)
        if seconds is None:
            seconds = job.derived[RUN_SECONDS] = _seconds(job.annotations.get(RUN_SECONDS, ""))
        return seconds

    def shown(self, task: Task) -> float:
        """Seconds that earlier runs of its kind show; 0.0 where there were none, or they do not count."""
        return self.session.snapshot.run_times.estimate(task) if self.learned else 0.0

    def seconds(self, task: Task) -> float:
        """Seconds that the pod will have run when it ends; 0.0 when that is not known.

        An earlier run counts even where more is stated, because what is stated is mostly a limit far above it.
        """
        stated, shown = self.stated(task), self.shown(task)
        return min(stated, shown) if stated and shown else stated or shown

    def end(self, task: Task) -> float:
        """When a running pod is expected to end, seconds since the epoch; 0.0 when that is not known.

        One that is beyond what is stated is expected to end at once; one that is beyond what earlier runs show, a step
        later than it has been so far.
        """
        if not self.learned:
            end = self.stated_end(task)
            return max(end, self.session.now) if end else 0.0
        now, began = self.session.now, task.since or task.created
        seconds = self.seconds(task)
        if not seconds:
            return 0.0
        if began + seconds > now:
            return began + seconds
        stated = self.stated(task)
        if stated and began + stated <= now:
            return now
        over = now - began - seconds
        later = began + seconds + next((step for step in _STEPS if step > over), over + _STEPS[-1])
        return min(later, began + stated) if stated else later

    def stated_end(self, task: Task) -> float:
        """When a running pod ends by what is stated alone, seconds since the epoch; 0.0 where nothing is."""
        seconds = self.stated(task)
        return (task.since or task.created) + seconds if seconds else 0.0

    def longest(self, record: Job, pod_class: PodClass) -> float:
        """Seconds that the job's waiting pods of the class run at most; 0.0 where that is not known of one.

        Where earlier runs do not count, it is kept with the record.
        """
        kept: dict[object, Any] = self._longest if self.learned else record.derived
        key = (record.key if self.learned else RUNS, pod_class.id, self.stamp)
        duration: float | None = kept.get(key)
        if duration is None:
            seconds = [self.seconds(task) for task in record.pending.values() if task.pod_class is pod_class]
            duration = kept[key] = max(seconds) if seconds and all(seconds) else 0.0
        return duration


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return seconds if 0.0 < seconds < inf else 0.0
