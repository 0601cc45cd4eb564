"""Places in the line of a level: who runs, then who was evicted, the last first, then who came in and has not run yet.

A job that comes into a level, from outside or from the level before, stands at the end of its line, even if it runs:
those that wait there come first. So the levels of the simulator that was published with Muri (SIGCOMM 2022) work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unisono.cluster.status import TaskStatus
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session

_RUNNING = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


@dataclass(slots=True)
class _Stand:
    """Where a job stands: its level, since when, since when it has run there (0.0: not yet), and whether it does."""

    uid: str
    level: int
    since: float
    began: float = 0.0
    runs: bool = False


class Line:
    """Stands by job, kept from cycle to cycle; a scheduler that has just started knows who runs and who waits."""

    def __init__(self) -> None:
        self._stands: dict[str, _Stand] = {}
        self._at = -1.0

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
    return not job.record.pending or any(job.record.counts[status] for status in _RUNNING)
