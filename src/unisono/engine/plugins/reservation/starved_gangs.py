"""Gangs that cannot start and have waited long, those that come first in line first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import inf

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session

_Place = tuple[int, float, str]
_Needs = tuple[float, list[Task]]
_NONE: _Needs = (0.0, [])
_KNOWN = "reservation.needs"


class StarvedGangs:
    """Gangs that cannot start and have waited ``after`` seconds, with their missing tasks, as the session began.

    Those of the highest priority come first, then those that have waited longest, counted from their newest pod. Mostly
    only the first few are looked at, so the rest is not put in order. What a gang misses follows from its record
    alone, and is kept with it from session to session.
    """

    def __init__(self, session: Session, after: float) -> None:
        self._heap: list[tuple[_Place, JobState, list[Task]]] = []
        self._first: list[tuple[JobState, list[Task]]] = []
        now, setbacks = session.now, session.snapshot.setbacks
        open_queues = {name for name, queue in session.queues.items() if queue.open}
        heap = self._heap
        for job in session.active if after < inf else ():
            since, tasks = job.record.derived.get(_KNOWN) or _needs(job)
            if tasks and now - since >= after and job.queue.name in open_queues:
                heap.append(((-job.priority, since, job.key), job, tasks))
        if setbacks:  # those may never start
            heap[:] = [entry for entry in heap if entry[1].key not in setbacks]
        heapq.heapify(heap)

    def __bool__(self) -> bool:
        return bool(self._heap or self._first)

    def __iter__(self) -> Iterator[tuple[JobState, list[Task]]]:
        at = 0
        while True:
            while at < len(self._first):
                yield self._first[at]
                at += 1
            if not self._heap:
                return
            self._first.append(heapq.heappop(self._heap)[1:])


def _needs(job: JobState) -> _Needs:
    """Since when the gang waits, and for which tasks; none where it does not."""
    found = _NONE
    if job.record.phase != "Pending" and not job.is_ready and job.valid_count >= job.min_member:
        tasks = _missing(job)
        if tasks:
            found = max(task.created for task in tasks), tasks
    job.record.derived[_KNOWN] = found
    return found


def _missing(job: JobState) -> list[Task] | None:
    """The tasks that the gang needs to start; None where more than resources, labels and taints decides where."""
    tasks = [task for task in job.record.pending.values() if not task.gated and task.owned and not task.best_effort]
    number = job.min_member - job.ready_count - job.pending_best_effort
    if number < 1 or len(tasks) < number or job.record.topology is not None or job.record.sub_groups:
        return None
    for task in tasks:
        pod_class = task.pod_class
        if pod_class.base is not pod_class or pod_class.host_ports or pod_class.notes:
            return None
    tasks.sort(key=lambda task: (-task.priority, task.ordinal, task.created, task.key))
    by_role = [task for role, need in sorted(job.min_task_member.items()) for task in _of_role(job, tasks, role, need)]
    chosen = {task.key: task for task in (*by_role, *tasks)}
    return list(chosen.values())[: max(number, len(by_role))]


def _of_role(job: JobState, tasks: list[Task], role: str, need: int) -> list[Task]:
    counts = job.role_counts(role)
    pending = counts[TaskStatus.PENDING]
    held = sum(counts) - pending
    return [task for task in tasks if task.role == role][: max(need - held, 0)]
