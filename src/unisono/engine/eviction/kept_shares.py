"""What reclaim leaves to queues: no pod goes for a resource of which its queue holds no more than its share.

Plug-ins ask whether a queue holds more than it deserves of anything. A queue with little of a device and much of the
processors beside it would lose the devices that it deserves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unisono.cluster.records import Task
from unisono.cluster.resources import PODS
from unisono.engine.session.amounts import Amounts, listed
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session


class KeptShares:
    """Pods that could go, one after the other; each one that may counts as gone for the next.

    Args:
        session: knows what queues deserve.
        missing: rows of what has to be freed; the number of pods is no share.

    """

    def __init__(self, session: Session, missing: Iterable[int]) -> None:
        self._session = session
        self._rows = [row for row in missing if row != PODS]
        self._held: dict[str, Amounts] = {}

    def lets_go(self, tasks: Sequence[Task], job: JobState) -> bool:
        """Whether the queue of these tasks, which go together, holds more than its share of all that they free."""
        told, queue = self._session.queue_shares.metrics_of, job.queue
        shares = told(queue) if told is not None else None
        if shares is None or not self._rows:
            return True
        held = self._held.get(queue.name)
        if held is None:
            held = self._held[queue.name] = listed(queue.claimed, self._session.registry)
        freed = dict.fromkeys(self._rows, 0)
        for task in tasks:
            for row, amount in zip(task.pod_class.rows.tolist(), task.pod_class.amounts.tolist(), strict=True):
                if row in freed:
                    freed[row] += amount
        if any(amount and held[row] <= shares.deserved[row] for row, amount in freed.items()):
            return False
        for row, amount in freed.items():
            held[row] -= amount
        return True
