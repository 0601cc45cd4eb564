"""When a changed status of a job is worth a write.

Counts that move all the time are written now and then, and that a job runs is told when the rush of pods is over.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unisono.api.batch import JobStatus
from unisono.controllers.job import phases
from unisono.kube.right_of_way import LONGEST_COUNT_SECONDS, RightOfWay

# Fields that follow the pods one by one; every other field of a status is news.
_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown", "task_status_count")
_NO_COUNTS = dict.fromkeys(_COUNTS)
# Times are kept for so many jobs before those that say nothing any more are dropped.
_REMEMBERED = 4096


class CountPacing:
    """Lets a status that differs in counts alone wait until some time after the job's last write."""

    def __init__(self, interval: float, settle: float) -> None:
        """Make one for all jobs of a controller.

        Args:
            interval: shortest time in seconds between two writes of one job, as long as only counts change.
            settle: time in seconds that counts which begin to change get to come to rest.

        """
        self._interval, self._settle = interval, min(settle, interval)
        self._written: dict[str, float] = {}
        self._noticed: dict[str, float] = {}

    def wait(self, uid: str, old: JobStatus, new: JobStatus, now: float, stretch: float = 1.0) -> float:
        """Seconds that the write of ``new`` waits; 0 for now.

        ``now`` is monotonic seconds; ``stretch`` multiplies the times while the API server is strained.
        """
        if _but_counts(old) != _but_counts(new):
            return 0.0
        due = self._noticed.setdefault(uid, now) + self._settle * stretch
        if uid in self._written:
            due = max(due, self._written[uid] + self._interval * stretch)
        return max(0.0, due - now)

    def written(self, uid: str, now: float) -> None:
        """The job's status was written."""
        self._noticed.pop(uid, None)
        self._written[uid] = now
        if len(self._written) > _REMEMBERED:
            self._written = {key: when for key, when in self._written.items() if when > now - self._interval}

    def settled(self, uid: str) -> None:
        """The stored status is right."""
        self._noticed.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._written.pop(uid, None)
        self._noticed.pop(uid, None)


class GivingWay:
    """Lets a status that only tells how well the pods come along wait while pods of other jobs are being made."""

    def __init__(self, way: RightOfWay, resume: Callable[[str], None]) -> None:
        """``resume`` is called with each key that waited, at the end of the rush."""
        self._way, self._resume = way, resume
        self._since: dict[str, float] = {}
        self._parked: set[str] = set()
        way.when_free(self._free)

    def wait(self, key: str, old: JobStatus, new: JobStatus, now: float) -> float:
        """Longest time in seconds that the write of ``new`` waits; 0 for now. ``now`` is monotonic seconds."""
        if not self._way.taken or not _good_news(old, new):
            return 0.0
        left = self._since.setdefault(key, now) + LONGEST_COUNT_SECONDS - now
        if left > 0:
            self._parked.add(key)
        return max(0.0, left)

    def over(self, key: str) -> None:
        """The stored status of the job is right, or is being written, or the job is gone."""
        self._since.pop(key, None)
        self._parked.discard(key)

    def _free(self) -> None:
        parked, self._parked = self._parked, set()
        for key in parked:
            self._resume(key)


def _good_news(old: JobStatus, new: JobStatus) -> bool:
    """Counts have moved, or the job runs now: nothing that anybody has to act upon."""
    if _but_counts(old) == _but_counts(new):
        return True
    started = (old.state.phase, new.state.phase) == (phases.PENDING, phases.RUNNING)
    return started and _but_counts(old, state=None) == _but_counts(new, state=None)


def _but_counts(status: JobStatus, **others: None) -> JobStatus:
    return msgspec.structs.replace(status, **_NO_COUNTS, **others)
