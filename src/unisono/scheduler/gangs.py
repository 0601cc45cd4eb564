"""Finds gangs that are only partly bound, and gives the bound part back when the rest does not follow in time.

A gang's binds leave together, but writes can fail and a scheduler can be killed between two of them. The members that
are missing are placed again in the next cycle, with the bound members counted. If that does not succeed within
``patience`` seconds, or a member was deleted for good, the members that are bound but do not run yet are removed: half
a gang must not hold nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from unisono.cluster.records import Job, Task
from unisono.cluster.status import READY_STATES, TaskStatus, count


@dataclass(frozen=True, slots=True)
class Release:
    """A gang whose bound members are to be removed."""

    job: str
    pods: tuple[Task, ...]
    ready: int
    min_member: int


class PartialGangs:
    """Remembers since when each gang is partly bound."""

    def __init__(self, patience: float = 60.0) -> None:
        """``patience`` is the longest time in seconds that a gang may stay partly bound."""
        self.patience = patience
        self._since: dict[str, float] = {}

    def observe(
        self, jobs: Mapping[str, Job], active: Iterable[str], now: float, busy: Callable[[str], bool]
    ) -> list[Release]:
        """Look at the jobs that a cycle looks at; ``now`` is monotonic seconds, ``busy`` tells of binds under way."""
        partial = {key for key in {*active, *self._since} if _is_partial(jobs.get(key))}
        self._since = {key: self._since.get(key, now) for key in sorted(partial)}
        releases = []
        for key, since in list(self._since.items()):
            if now - since < self.patience or busy(key):
                continue
            job = jobs[key]
            pods = tuple(task for task in job.tasks.values() if task.status is TaskStatus.BOUND)
            releases.append(Release(key, pods, count(job.counts, READY_STATES), job.min_member))
            del self._since[key]
        return releases

    def next_due(self) -> float | None:
        """Monotonic time at which the next gang's patience ends."""
        return min((since + self.patience for since in self._since.values()), default=None)


def _is_partial(job: Job | None) -> bool:
    """Some members are bound and do not run, and all that have a place for good are too few.

    A bind on its way counts as missing: one that fails again and again must not restart the patience. Failed members
    count as present: what follows from a failure is for the job's policies to say.
    """
    if job is None or not job.known or not job.counts[TaskStatus.BOUND]:
        return False
    present = count(job.counts, READY_STATES) - job.counts[TaskStatus.BINDING] + job.counts[TaskStatus.FAILED]
    return present < job.min_member
