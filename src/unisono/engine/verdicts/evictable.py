"""Which pods would have to go for a job to start: those of lower priority, and of queues above their share.

A question about "what if", asked whether or not an action that evicts is configured; no pod is evicted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from unisono.cluster.records import Job, Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import PREEMPTABLE_STATES, count
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.sub_groups import runs

MOST_RUNNING = 5_000
"""Running pods up to which the question is asked at all: they are looked at one by one."""
MOST_VICTIMS = 64
_SYSTEM = ("system-cluster-critical", "system-node-critical")


class Evictable:
    """Running pods of one cycle that could be evicted for another job."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.session = cycle.session

    @cached_property
    def _holding(self) -> dict[tuple[str, int], list[Job]]:
        """Jobs whose pods may be evicted, by queue and priority."""
        by_queue: dict[tuple[str, int], list[Job]] = {}
        snapshot = self.session.snapshot
        if len(snapshot.tasks) <= MOST_RUNNING:
            for record in snapshot.jobs.values():
                if record.known and record.queue in self.session.queues and count(record.counts, PREEMPTABLE_STATES):
                    by_queue.setdefault((record.queue, snapshot.priority_of(record)), []).append(record)
        return by_queue

    def victims(self, job: JobState) -> tuple[str, ...]:
        """Keys of pods without which the job would have room, few of them; empty when there are none."""
        by_node: dict[int, list[tuple[int, Task]]] = {}
        for (queue, priority), records in self._holding.items():
            if self._may_go(self.session.queues[queue], priority, job):
                for record in records:
                    for column, task in self._evictable(record) if record is not job.record else ():
                        by_node.setdefault(column, []).append((priority, task))
        if not by_node:
            return ()
        for tasks in by_node.values():
            tasks.sort(key=lambda each: (each[0], -each[1].created, each[1].key))
        return self._search(job, {column: [task for _, task in tasks] for column, tasks in by_node.items()})

    def _evictable(self, record: Job) -> Iterator[tuple[int, Task]]:
        """Its pods that may be evicted, with the columns of their nodes."""
        job, index = self.session.job(record.key), self.session.snapshot.nodes.index
        for task in record.tasks.values() if job is not None else ():
            if task.status not in PREEMPTABLE_STATES or not task.preemptable or not task.owned:
                continue
            if task.priority_class_name in _SYSTEM or task.namespace == "kube-system" or task.node not in index:
                continue
            if job is not None and job.status(task) in PREEMPTABLE_STATES:
                yield index[task.node], task

    def _may_go(self, queue: QueueState, priority: int, job: JobState) -> bool:
        if queue is job.queue:
            return priority < job.priority
        return queue.record.reclaimable and self._over_share(queue)

    def _over_share(self, queue: QueueState) -> bool:
        registry = self.session.registry
        shares = self.session.book.shares.deserved.get(queue.name)
        if shares is None and queue.record.deserved is not None:
            shares = [queue.record.deserved.get(name, 0) for name in registry.names]
        if shares is None:
            return False
        held = fitted(queue.allocated, len(shares)).tolist()
        return any(mine > share for mine, share in zip(held, shares, strict=True))

    def _search(self, job: JobState, by_node: dict[int, list[Task]]) -> tuple[str, ...]:
        """Fill the nodes where the fewest pods would have to go for the next task."""
        session = self.session
        free = np.maximum(session.nodes.future_idle, 0)
        tasks = self.cycle.pending(job, best_effort=False)[: max(job.min_member - job.ready_count, 1)]
        gone: list[str] = []
        for run in runs(tasks):
            pod_class, left = run[0].pod_class, len(run)
            allowed = self.cycle.fits.static.result(pod_class, session, self.cycle.hooks).allowed
            rows, amounts = pod_class.rows, pod_class.amounts
            columns = np.flatnonzero(allowed).tolist()
            heap = [(number, at) for at in columns if (number := _number(free, at, rows, amounts, by_node)) >= 0]
            heapq.heapify(heap)
            while left and heap:
                number, at = heapq.heappop(heap)
                for task in by_node.get(at, [])[:number]:
                    vector = fitted(task.pod_class.vector, len(free))
                    free[:, at] += vector
                    gone.append(task.key)
                by_node[at] = by_node.get(at, [])[number:]
                free[rows, at] -= amounts
                left -= 1
                if (again := _number(free, at, rows, amounts, by_node)) >= 0:
                    heapq.heappush(heap, (again, at))
            if left or len(gone) > MOST_VICTIMS:
                return ()
        return tuple(sorted(gone))


def _number(
    free: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    at: int,
    rows: np.ndarray[tuple[int, ...], np.dtype[np.intp]],
    amounts: Vector,
    by_node: dict[int, list[Task]],
) -> int:
    """How many of the node's pods must go, in order, before the task fits; -1 when all of them would not do."""
    have = free[rows, at].copy()
    if (have >= amounts).all():
        return 0
    for number, task in enumerate(by_node.get(at, ()), start=1):
        have += fitted(task.pod_class.vector, len(free))[rows]
        if (have >= amounts).all():
            return number
    return -1
