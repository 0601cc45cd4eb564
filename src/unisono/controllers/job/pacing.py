"""When a changed status of a job is worth a write.

Counts that move all the time are written now and then, and that a job runs is told when the rush of pods is over. That
a new job waits goes without saying for a moment: most are told together with what they have come to by then.
"""

from __future__ import annotations

import msgspec

from unisono.api.groups.batch import JobStatus
from unisono.controllers.job import phases
from unisono.kube.pace import LONGEST_COUNT_SECONDS, Resume, WritePace

# Fields that follow the pods one by one; every other field of a status is news.
_COUNTS = ("pending", "running", "succeeded", "failed", "terminating", "unknown", "task_status_count", "replicas")
_NO_COUNTS = dict.fromkeys(_COUNTS)
# Times are kept for so many jobs before those that say nothing any more are dropped.
_REMEMBERED = 4096


class CountPacing:
    """Lets a status that differs in counts alone wait until some time after the job's last write."""

    def __init__(self, interval: float, settle: float) -> None:
        """Make one for all jobs of a controller.

        Args:
            interval: shortest time in seconds between two writes of one job, as long as only counts change; a new job
                gets as long before its first write.
            settle: time in seconds that counts which begin to change get to come to rest.

        """
        self._interval, self._settle = interval, min(settle, interval)
        self._written: dict[str, float] = {}
        self._noticed: dict[str, float] = {}
        self._met: dict[str, float] = {}

    def wait(self, uid: str, old: JobStatus, new: JobStatus, now: float, stretch: float = 1.0) -> float:
        """Seconds that the write of ``new`` waits; 0 for now.

        ``now`` is monotonic seconds; ``stretch`` multiplies the times while the API server is slow.
        """
        if _but_counts(old) != _but_counts(new):
            return 0.0
        due = self._noticed.setdefault(uid, now) + self._settle * stretch if old != new else now
        if uid in self._written:
            due = max(due, self._written[uid] + self._interval * stretch)
        if uid in self._met:
            due = max(due, self._met[uid] + self._interval * stretch)
        return max(0.0, due - now)

    def met(self, uid: str, now: float) -> None:
        """The job has no status yet."""
        self._met.setdefault(uid, now)

    def written(self, uid: str, now: float) -> None:
        """The job's status was written."""
        self.settled(uid)
        self._written[uid] = now
        if len(self._written) > _REMEMBERED:
            self._written = {key: when for key, when in self._written.items() if when > now - self._interval}

    def settled(self, uid: str) -> None:
        """The stored status is right."""
        self._noticed.pop(uid, None)
        self._met.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._written.pop(uid, None)
        self.settled(uid)


class GivingWay:
    """Lets a status that only tells how well the pods come along wait while pods of other jobs are being made."""

    def __init__(self, pace: WritePace, resume: Resume) -> None:
        """``resume`` is called with each key that waited, at the end of the rush."""
        self._pace, self._resume = pace, resume
        self._since: dict[str, float] = {}

    def wait(self, key: str, old: JobStatus, new: JobStatus, now: float) -> float:
        """Longest time in seconds that the write of ``new`` waits; 0 for now. ``now`` is monotonic seconds."""
        if not self._pace.rush or not _good_news(old, new):
            return 0.0
        left = self._since.setdefault(key, now) + LONGEST_COUNT_SECONDS - now
        if left > 0:
            self._pace.park(key, self._resume)
        return max(0.0, left)

    def over(self, key: str) -> None:
        """The stored status of the job is right, or is being written, or the job is gone."""
        self._since.pop(key, None)
        self._pace.leave(key, self._resume)


def _good_news(old: JobStatus, new: JobStatus) -> bool:
    """Counts have moved, or the job runs now: nothing that anybody has to act upon."""
    if _but_counts(old) == _but_counts(new):
        return True
    started = (old.state.phase, new.state.phase) == (phases.PENDING, phases.RUNNING)
    return started and _but_counts(old, state=None) == _but_counts(new, state=None)


def _but_counts(status: JobStatus, **others: None) -> JobStatus:
    return msgspec.structs.replace(status, **_NO_COUNTS, **others)
