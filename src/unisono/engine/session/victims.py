"""Pods that could be evicted: by node and as arrays, and in bundles that their gangs can spare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import PREEMPTABLE_STATES, READY_STATES, TaskStatus, count
from unisono.engine.answers import BoolArray
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import groups_of

# Victims in bundles: tasks that their gangs can spare, and gangs' cores that only go whole.

_READY = frozenset(READY_STATES)


@dataclass(slots=True)
class Bundle:
    """Tasks of one job that go together.

    Attributes:
        safe: the job goes on without them; else they are all that its gang needs.
        tasks: with their node columns.
        elsewhere: tasks that go with them without making room where it is wanted.
    """

    job: JobState
    safe: bool
    tasks: list[tuple[Task, int]]
    elsewhere: list[tuple[Task, int]] = field(default_factory=list)

    @property
    def every(self) -> list[tuple[Task, int]]:
        """All tasks that go."""
        return self.tasks + self.elsewhere

    def amounts(self, rows: int) -> Vector:
        """``[R]`` what those hold that make room where it is wanted."""
        held = np.zeros(rows, dtype=np.int64)
        for task, _ in self.tasks:
            held += fitted(task.pod_class.vector, rows)
        return held

    def efficiency(self, need: Vector) -> float:
        """Share of the need that it meets, by the share of the need that the whole gang holds; larger is better.

        Over resources that are needed (Volcano's measure): a gang that holds much elsewhere is a dear victim. What a
        gang can spare costs nothing.
        """
        if self.safe:
            return float("inf")
        needed = need > 0
        local = np.minimum(self.amounts(len(need))[needed], need[needed]) / need[needed]
        whole = fitted(self.job.allocated, len(need))[needed] / need[needed]
        total = float(whole.sum())
        return float(local.sum()) / total if total > 0 else float("inf")


class Surplus:
    """How many tasks of one job can still go without breaking it: of the gang, its roles and its sub-groups."""

    def __init__(self, session: Session, job: JobState) -> None:
        self.job = job
        self.broken = job.ready_count < job.min_member
        self.total = job.ready_count - job.min_member
        self.roles: dict[str, int] = {}
        if job.roles_apply:
            for role, need in job.min_task_member.items():
                self.roles[role] = count(job.role_counts(role), READY_STATES) - need
        self.group_of: dict[str, str] = {}
        self.groups: dict[str, int] = {}
        if job.record.sub_groups:
            for group in groups_of(session, job):
                self.groups[group.key] = group.count(_READY) - group.minimum
                self.group_of |= {task.key: group.key for task in group.tasks}

    def copy(self) -> Surplus:
        """The same, to try something."""
        duplicate = copy(self)
        duplicate.roles, duplicate.groups = dict(self.roles), dict(self.groups)
        return duplicate

    def take(self, task: Task) -> bool:
        """Whether the task can go; then it is counted as gone."""
        if self.broken:
            return True
        group = self.group_of.get(task.key, "")
        if self.total <= 0 or self.roles.get(task.role, 1) <= 0 or self.groups.get(group, 1) <= 0:
            return False
        self.total -= 1
        if task.role in self.roles:
            self.roles[task.role] -= 1
        if group in self.groups:
            self.groups[group] -= 1
        return True


def bundles_of(session: Session, candidates: Iterable[tuple[Task, int, JobState]]) -> list[Bundle]:
    """Candidates in bundles: per job what it can spare, least important tasks first, and what it cannot.

    A gang that is broken can spare all it has, together: none of it is of use.
    """
    by_job: dict[str, list[tuple[Task, int, JobState]]] = {}
    for item in candidates:
        by_job.setdefault(item[2].key, []).append(item)
    bundles: list[Bundle] = []
    for key in sorted(by_job):
        items = sorted(by_job[key], key=lambda item: (item[0].priority, item[0].uid, item[0].key))
        job = items[0][2]
        surplus = Surplus(session, job)
        safe: list[tuple[Task, int]] = []
        core: list[tuple[Task, int]] = []
        for task, column, _ in items:
            (safe if surplus.take(task) else core).append((task, column))
        bundles += [Bundle(job, True, safe)] if surplus.broken else [Bundle(job, True, [each]) for each in safe]
        if core:
            bundles.append(Bundle(job, False, core))
    return bundles


def in_order(bundles: Sequence[Bundle], rank: Callable[[JobState], Any], need: Vector) -> list[Bundle]:
    """What gangs can spare first, then by ``rank`` of the job (lowest loses first), then by efficiency and youth."""
    ranks = {bundle.job.key: rank(bundle.job) for bundle in bundles}
    return sorted(
        bundles,
        key=lambda bundle: (
            not bundle.safe,
            ranks[bundle.job.key],
            -bundle.efficiency(need),
            -bundle.job.created,
            bundle.job.key,
            bundle.tasks[0][0].priority,
            bundle.tasks[0][0].uid,
        ),
    )


# Pods that could be evicted, by node and as arrays, so that nodes are searched with vector passes.


Index = npt.NDArray[np.intp]


class VictimJobs:
    """Jobs that have evictable tasks, in order of their keys.

    Attributes:
        states: the jobs.
        queues: their queues, each once.
        queue: ``[J]`` index into ``queues``.
        priority: ``[J]`` priorities.
        spare: ``[J]`` ready tasks beyond the minimum, when the index was made.
    """

    def __init__(self, states: list[JobState]) -> None:
        self.states = states
        self.number = {job.key: at for at, job in enumerate(states)}
        names = sorted({job.queue.name for job in states})
        position = {name: at for at, name in enumerate(names)}
        by_name = {job.queue.name: job.queue for job in states}
        self.queues: list[QueueState] = [by_name[name] for name in names]
        self.queue: Index = np.array([position[job.queue.name] for job in states], dtype=np.intp)
        self.priority = np.array([job.priority for job in states], dtype=np.int64)
        self.spare = np.array([job.ready_count - job.min_member for job in states], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.states)


class VictimIndex:
    """Every bound or running, preemptable task of a known job of this scheduler.

    Attributes:
        tasks: by node in column order, then by key; ``T`` of them.
        jobs: their jobs.
        column, job: ``[T]`` node and index into ``jobs.states``.
        alive: ``[T]`` not evicted in this session.
        running, best_effort: ``[T]``.
    """

    def __init__(self, session: Session) -> None:
        self.tasks: list[Task] = []
        columns: list[int] = []
        states: dict[str, JobState] = {}
        for column, task, job in _evictable(session):
            self.tasks.append(task)
            columns.append(column)
            states[job.key] = job
        self.jobs = VictimJobs([states[key] for key in sorted(states)])
        number = self.jobs.number
        self.column: Index = np.array(columns, dtype=np.intp)
        self.job: Index = np.array([number[task.job] for task in self.tasks], dtype=np.intp)
        self.alive: BoolArray = np.ones(len(columns), dtype=np.bool_)
        self.running: BoolArray = np.array([task.status is TaskStatus.RUNNING for task in self.tasks], dtype=np.bool_)
        self.best_effort: BoolArray = np.array([task.best_effort for task in self.tasks], dtype=np.bool_)
        self._starts = np.searchsorted(self.column, np.arange(session.nodes.size + 1)).tolist()
        self._at: dict[str, int] = {task.key: at for at, task in enumerate(self.tasks)}
        self._size = session.nodes.size
        classes = {task.pod_class.id: task.pod_class for task in self.tasks}
        order = {number: at for at, number in enumerate(classes)}
        vectors = [fitted(c.vector, session.rows) for c in classes.values()]
        self._vectors = np.array(vectors, dtype=np.int64).reshape(len(vectors), session.rows)
        self._class: Index = np.array([order[task.pod_class.id] for task in self.tasks], dtype=np.intp)

    def __len__(self) -> int:
        return len(self.tasks)

    def on(self, column: int) -> range:
        """Positions of the tasks of a node."""
        return range(self._starts[column], self._starts[column + 1])

    def of_job(self, number: int) -> Index:
        """Positions of the tasks of a job, by its index into ``jobs.states``; ascending, read only."""
        members, starts = self._by_job
        return members[starts[number] : starts[number + 1]]

    @cached_property
    def _by_job(self) -> tuple[Index, Index]:
        """Positions of all tasks, job by job, and where each job begins (one entry more at the end)."""
        members = np.argsort(self.job, kind="stable")
        return members, np.searchsorted(self.job[members], np.arange(len(self.jobs) + 1)).astype(np.intp)

    def at(self, task: Task) -> int:
        """Position of a task; KeyError when it is none that could be evicted."""
        return self._at[task.key]

    def refresh(self) -> None:
        """Follow what the session has decided since the index was made, evictions included."""
        self.jobs.spare[:] = [job.ready_count - job.min_member for job in self.jobs.states]
        moved = np.array([bool(job.places) for job in self.jobs.states], dtype=np.bool_)
        for at in np.flatnonzero(moved[self.job]).tolist() if len(moved) else ():
            self.alive[at] = self.jobs.states[int(self.job[at])].status(self.tasks[at]) in PREEMPTABLE_STATES

    def totals(self, mask: BoolArray) -> dict[str, list[int]]:
        """What the tasks of ``mask`` hold, ``[R]`` by name of their queue."""
        chosen = np.flatnonzero(mask)
        queues = self.jobs.queue[self.job[chosen]]
        by_queue: dict[str, list[int]] = {}
        for at in np.unique(queues).tolist():
            numbers = np.bincount(self._class[chosen[queues == at]], minlength=len(self._vectors))
            held = numbers[:, None].astype(object) * self._vectors
            by_queue[self.jobs.queues[at].name] = [int(amount) for amount in held.sum(axis=0)]
        return by_queue

    def sums(self, mask: BoolArray, row: int) -> Vector:
        """``[N]`` what the tasks of ``mask`` hold of one resource, by node."""
        chosen = np.flatnonzero(mask)
        amounts = self._vectors[self._class[chosen], row]
        summed = np.bincount(self.column[chosen], weights=amounts, minlength=self._size)
        return np.asarray(summed, dtype=np.int64)


def _evictable(session: Session) -> Iterator[tuple[int, Task, JobState]]:
    tasks_on = session.snapshot.tasks_on
    for column, name in enumerate(session.snapshot.nodes.names):
        held = tasks_on.get(name)
        if not held:
            continue
        for _, task in sorted(held.items()):
            if not task.preemptable or not task.owned or task.status not in PREEMPTABLE_STATES:
                continue
            job = session.job(task.job) if task.job else None
            if job is not None and job.status(task) in PREEMPTABLE_STATES:
                yield column, task, job
