"""What reclaim leaves to queues: no pod goes for a resource of which its queue holds no more than its share.

Plug-ins ask whether a queue holds more than it deserves of anything. A queue with little of a device and much of the
processors beside it would lose the devices that it deserves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unisono.cluster.records import Task
from unisono.cluster.resources import PODS
from unisono.engine.session.amounts import Amounts
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.session import Session


class KeptShares:
    """Pods that could go, one after the other; each one that may counts as gone for the next.

    Args:
        session: knows what queues deserve.
        missing: rows of what has to be freed; the number of pods is no share. Where nothing else is missing, as on
            nodes that take no more pods or whose room is in pieces, queues go beyond their share of something.

    """

    def __init__(self, session: Session, missing: Iterable[int]) -> None:
        self._session = session
        self._rows = [row for row in missing if row != PODS]
        self._over: dict[str, dict[int, int]] = {}

    def lets_go(self, tasks: Sequence[Task], job: JobState) -> bool:
        """Whether the queue of these tasks, which go together, holds more than its share of all that they free."""
        over = self._over.get(job.queue.name)
        if over is None:
            over = self._over[job.queue.name] = self._beyond(job.queue)
        if not over:
            return True
        vectors = [task.pod_class.vector for task in tasks]
        freed = {row: sum(vector.item(row) for vector in vectors if row < len(vector)) for row in over}
        within = [over[row] <= 0 for row, amount in freed.items() if amount]
        if within and (any(within) if self._rows else all(within)):
            return False
        for row, amount in freed.items():
            over[row] -= amount
        return True

    def _beyond(self, queue: QueueState) -> dict[int, int]:
        """What the queue holds beyond its share, by row; empty where nothing divides the cluster."""
        deserved = self._session.shared.of(_Deserved, lambda: _Deserved(self._session)).of(queue)
        rows = self._rows or [row for row in range(min(len(deserved), len(queue.claimed))) if row != PODS]
        return {row: queue.claimed.item(row) - deserved[row] for row in rows} if deserved else {}


class _Deserved:
    """What queues deserve, which does not change within a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, Amounts] = {}

    def of(self, queue: QueueState) -> Amounts:
        """By row; empty where nobody says."""
        found = self._known.get(queue.name)
        if found is None:
            told = self._session.book.shares.metrics_of
            shares = told(queue) if told is not None else None
            found = self._known[queue.name] = [] if shares is None else list(shares.deserved)
        return found
