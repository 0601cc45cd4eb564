"""Gangs that cannot start and have waited long, those that come first in line first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import inf

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.cluster.waiting_jobs import Entry
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session

_Place = tuple[int, float, str]
_Needs = tuple[float, list[Task]]
_Behind = Iterator[Entry] | None
_NONE: _Needs = (0.0, [])
_KNOWN = "reservation.needs"


class StarvedGangs:
    """Gangs that cannot start and have waited ``after`` seconds, with their missing tasks, as the session began.

    Those of the highest priority come first, then those that have waited longest, counted from their newest pod. Mostly
    only the first few are looked at, so the rest is not put in order. What a gang misses follows from its record
    alone, and is kept with it from session to session.
    """

    def __init__(self, session: Session, after: float) -> None:
        self._heap: list[tuple[_Place, JobState, _Behind]] = []
        self._first: list[tuple[JobState, list[Task]]] = []
        self._session, self._after = session, after
        self._open = {name for name, queue in session.queues.items() if queue.open}
        if after < inf:
            self._find()
        setbacks = session.snapshot.setbacks
        if setbacks:  # those may never start
            self._heap[:] = [entry for entry in self._heap if entry[1].key not in setbacks]
        heapq.heapify(self._heap)

    def _find(self) -> None:
        """All such gangs; of those that are alike the first one only, which has the others behind it."""
        session = self._session
        waiting = session.snapshot.waiting
        if waiting is None or session.snapshot.setbacks:
            for job in session.active:
                self._add(job, None)
            return
        for other in map(session.job, waiting.others):
            if other is not None:
                self._add(other, None)
        for alike in waiting.alike.values():
            record = session.snapshot.jobs[alike.sample]
            if record.phase != "Pending" and record.queue in self._open:
                self._add_next(iter(alike.sorted_by(_KNOWN, self._since)))

    def _add(self, job: JobState, behind: _Behind) -> bool:
        since, tasks = job.record.derived.get(_KNOWN) or _needs(job)
        if not tasks or self._session.now - since < self._after or job.queue.name not in self._open:
            return False
        self._heap.append(((-job.priority, since, job.key), job, behind))
        return True

    def _add_next(self, behind: Iterator[Entry]) -> bool:
        """Add the next of gangs that are alike; where it has not waited long enough, none behind it has."""
        for _, key in behind:
            job = self._session.job(key)
            return job is not None and self._add(job, behind)
        return False

    def _since(self, key: str) -> float:
        job = self._session.job(key)
        since, tasks = _needs(job) if job is not None else _NONE
        return since if tasks else inf

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
            _, job, behind = heapq.heappop(self._heap)
            self._first.append((job, job.record.derived[_KNOWN][1]))
            if behind is not None and self._add_next(behind):
                heapq.heapify(self._heap)


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
