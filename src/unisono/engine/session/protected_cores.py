"""Pods that a job, or the queue that it is in, does not let be evicted: all of them, or those that its gang needs.

Which pods a gang needs follows from its minimum: those count as its core that come first in the job, and the surplus
goes, the last one first. So the same pods stay while the gang runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import EVICTABLE
from unisono.api.queues import ALL, LEVELS, NONE, evictable_of, level_at
from unisono.api.selecting import ROOT
from unisono.cluster.records import Task
from unisono.cluster.status import READY_STATES
from unisono.engine.answers import BoolArray
from unisono.engine.session.victims import Surplus

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


class Cores:
    """Answers for one session; nothing is worked out where no object has the annotation."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # What queues say that say something which can be read; admission refuses others.
        self._bands: dict[str, list[tuple[int, str]]] = {}
        for name, queue in session.queues.items():
            if EVICTABLE in queue.record.annotations:
                with suppress(ValueError):
                    self._bands[name] = evictable_of(queue.record.annotations[EVICTABLE])

    def level_of(self, job: JobState) -> tuple[str, str]:
        """What may be evicted of a job, and who says so: ``""`` for the job, else the queue.

        A queue says what its jobs keep at most: else whoever uses places of others could keep them for ever.
        """
        said = job.record.annotations.get(EVICTABLE, "").strip()
        own = said if said in LEVELS else ""
        name, seen = job.queue.name, set[str]()
        while self._bands and name and name not in seen and (queue := self._session.queues.get(name)) is not None:
            seen.add(name)
            if name in self._bands:
                of_queue = level_at(self._bands[name], job.priority)
                less = own and LEVELS.index(own) < LEVELS.index(of_queue)
                return (own, "") if less else (of_queue, name)
            name = queue.record.parent or ROOT
        return own or ALL, ""

    def kept(self, candidates: Sequence[Task]) -> BoolArray | None:
        """Which of these may not be evicted; None: any of them may."""
        session = self._session
        if not self._bands and not any(EVICTABLE in record.annotations for record in session.snapshot.jobs.values()):
            return None
        spared: set[str] = set()
        whole: set[str] = set()
        for key in {task.job for task in candidates}:
            job = session.job(key)
            level = self.level_of(job)[0] if job is not None else ALL
            if job is None or level == ALL:
                continue
            if level == NONE:
                whole.add(key)
            else:
                spared.update(_core(session, job))
        if not spared and not whole:
            return None
        return np.array([task.job in whole or task.key in spared for task in candidates], dtype=np.bool_)


def _core(session: Session, job: JobState) -> list[str]:
    """Keys of the tasks without which a gang falls below a minimum; all of one that lost some of those."""
    held = [task for task in job.record.tasks.values() if job.status(task) in READY_STATES]
    surplus = Surplus(session, job)
    if surplus.broken:
        return [task.key for task in held]
    last_first = sorted(held, key=lambda task: (-task.priority, task.created, task.key), reverse=True)
    return [task.key for task in last_first if not surplus.take(task)]
