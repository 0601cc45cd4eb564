"""Room in a queue for a waiting gang: whether the queue could ever hold it, and who must leave room for it there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.limit import Limit
from unisono.engine.session.session import Session
from unisono.engine.session.task_runs import runs


@dataclass(frozen=True, slots=True)
class QueueRoom:
    """What a gang lacks in its queue while others hold it.

    Attributes:
        queue: its queue.
        rows: resource rows of which the queue's share has too little left; what becomes free of them is kept for it.
        limits: those of the gang, its queue and the queues above it, of which too little is left, with the rows.

    """

    queue: QueueState
    rows: frozenset[int]
    limits: tuple[tuple[Limit, frozenset[int]], ...]

    def kept_from(self, job: JobState, pod_class: PodClass) -> bool:
        """Whether pods of the class would take room from the gang, in its queue or below one of the limits."""
        asked = pod_class.rows.tolist()
        if job.queue is self.queue and not self.rows.isdisjoint(asked):
            return True
        return any(limit in job.limits and not rows.isdisjoint(asked) for limit, rows in self.limits)


def room_in_queue(session: Session, job: JobState, tasks: Sequence[Task]) -> QueueRoom | None:
    """What must become free in the job's queue for ``tasks``; None where the queue can never hold them.

    What the queue itself holds counts as room to come: its pods end as those on the nodes do.
    """
    queue = job.queue
    need = np.zeros(session.rows, dtype=np.int64)
    for run in runs(list(tasks)):
        need += fitted(run[0].pod_class.vector, session.rows) * len(run)
    need[PODS] = 0
    room = session.book.shares.room(queue)
    free = None if room is None else fitted(room, session.rows)
    if free is not None and (free + fitted(queue.claimed, session.rows) < need)[need > 0].any():
        return None
    rows = _short(need, free) if free is not None else frozenset[int]()
    limits: list[tuple[Limit, frozenset[int]]] = []
    for limit in job.limits:
        asked = {row: int(need[row]) for row in limit.most if row < len(need) and need[row] > 0}
        if any(amount > limit.most[row] for row, amount in asked.items()):
            return None
        left = {row: limit.most[row] - int(limit.held[row]) - int(limit.leaving[row]) for row in asked}
        short = frozenset(row for row, amount in asked.items() if amount > left[row])
        if short:
            limits.append((limit, short))
    return QueueRoom(queue, rows, tuple(limits))


def _short(need: Vector, free: Vector) -> frozenset[int]:
    return frozenset(np.flatnonzero((need > 0) & (need > free)).tolist())
