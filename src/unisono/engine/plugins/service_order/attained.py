"""How long jobs have run so far, over all of their attempts, kept from cycle to cycle."""

from __future__ import annotations

from dataclasses import dataclass

from unisono.cluster.status import TaskStatus
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session

_HELD = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


@dataclass(slots=True)
class _Life:
    """Seconds of ended attempts; when the present one began, and until when it was seen (0.0: none)."""

    uid: str
    ended: float = 0.0
    began: float = 0.0
    seen: float = 0.0

    def close(self) -> None:
        if self.began:
            self.ended += max(self.seen - self.began, 0.0)
        self.began = self.seen = 0.0


class Attained:
    """Run times by job. A scheduler that has just started knows the present attempts only."""

    def __init__(self) -> None:
        self._lives: dict[str, _Life] = {}
        self._at = -1.0

    def look(self, session: Session) -> None:
        """Take note of who runs now."""
        if session.now == self._at:
            return
        self._at = session.now
        lives: dict[str, _Life] = {}
        for job in session.jobs:
            life = self._lives.get(job.key)
            if life is None or life.uid != job.record.uid:
                life = _Life(job.record.uid)
            lives[job.key] = life
            began = _began(job)
            if began != life.began:
                life.close()
                life.began = began
            if began:
                life.seen = session.now
        self._lives = lives

    def seconds(self, job: JobState, now: float) -> float:
        """For how long the job has run, up to now where it runs."""
        life = self._lives.get(job.key)
        if life is None:
            return 0.0
        return life.ended + (max(now - life.began, 0.0) if life.began else 0.0)


def _began(job: JobState) -> float:
    """When the present attempt began: when the last of its pods got its place; 0.0 when it does not run."""
    record = job.record
    if not any(record.counts[status] for status in _HELD):
        return 0.0
    return max(
        (task.since or task.created for task in record.tasks.values() if task.status in _HELD and task.node),
        default=0.0,
    )
