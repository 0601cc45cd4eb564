"""When a changed status of a job is worth a write: counts that move all the time are written now and then."""

from __future__ import annotations

import msgspec

from unisono.api.batch import JobStatus

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
        if msgspec.structs.replace(old, **_NO_COUNTS) != msgspec.structs.replace(new, **_NO_COUNTS):
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
