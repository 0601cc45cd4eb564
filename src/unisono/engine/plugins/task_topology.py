"""task-topology: tasks of one job that belong together, or apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_ORDER
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import CPU, MEMORY, PODS, Matrix, Vector, fitted
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus
from unisono.engine.answers import FloatArray, Key, Reach, Scope
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.node_view import NodeView

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

# Tasks of one job sorted into buckets that should share a node, by affinities among roles.

_MIB = 1 << 20
Pairs = set[frozenset[str]]
"""Pairs of roles; a set of one role stands for the role with itself."""


class Wishes:
    """What a PodGroup's annotations say about its roles.

    Attributes:
        near, apart: roles that should, and should not, share a node.
        order: roles in the order in which they are to be placed.
    """

    def __init__(self, near: Pairs, apart: Pairs, order: list[str]) -> None:
        self.near = near
        self.apart = apart
        self.order = order
        self.roles = {role for pair in near | apart for role in pair}

    def score(self, role: str, others: Mapping[str, int], *, only_apart: bool = False) -> int:
        """How many of ``others`` (number by role) a task wants near, less those that it wants apart."""
        total = 0
        for other, number in others.items():
            pair = frozenset((role, other))
            if pair in self.near and not only_apart:
                total += number
            if pair in self.apart:
                total -= number
        return total

    def priority(self, role: str) -> int:
        """Who is sorted in first: 4 apart from its own kind, 3 near others, 2 near its own kind, 1 apart from them."""
        alone = frozenset((role,))
        if alone in self.apart:
            return 4
        if any(role in pair for pair in self.near if len(pair) > 1):
            return 3
        if alone in self.near:
            return 2
        return int(any(role in pair for pair in self.apart))

    def rank(self, role: str) -> tuple[int, int]:
        """Sort key: explicit order, then priority."""
        place = self.order.index(role) if role in self.order else len(self.order)
        return place, -self.priority(role)


def read_wishes(annotations: Mapping[str, str], roles: Iterable[str]) -> Wishes | None:
    """The wishes of a PodGroup with these roles; None without any, or when a role is unknown or named twice."""
    role_names = set(roles)
    near, apart = (_groups(annotations.get(key, "")) for key in (TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY))
    order = _names(annotations.get(TASK_TOPOLOGY_ORDER, ""))
    if not near and not apart:
        return None
    named = [*(role for group in (*near, *apart) for role in group), *order]
    if any(role not in role_names for role in named):
        return None
    if any(len(set(group)) != len(group) for group in (*near, *apart, order)):
        return None
    return Wishes(_pairs(near), _pairs(apart), order)


def _groups(text: str) -> list[list[str]]:
    return [names for part in text.split(";") if (names := _names(part))]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(groups: list[list[str]]) -> Pairs:
    pairs: Pairs = set()
    for group in groups:
        if len(group) == 1:
            pairs.add(frozenset(group))
        pairs.update(frozenset(pair) for pair in combinations(group, 2))
    return pairs


class Bucket:
    """Tasks that should share a node.

    Attributes:
        index: in order of making.
        waiting: those without a place, by key.
        bound: number of those that have one, by node column.
        roles: number of all by role.
        weight: what its tasks without a place asked for when the session opened, as one number.
        size: number of all when the session opened.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: dict[str, Task] = {}
        self.bound: Counter[int] = Counter()
        self.roles: Counter[str] = Counter()
        self.weight = 0.0
        self.size = 0

    def add(self, task: Task) -> None:
        """Take a task in."""
        self.roles[task.role] += 1
        self.size += 1

    def request(self, size: int) -> Vector:
        """``[R]`` what the waiting tasks ask for."""
        total = np.zeros(size, dtype=np.int64)
        for task in self.waiting.values():
            total += fitted(task.pod_class.vector, size)
        return total


def _weight(vector: Vector) -> float:
    """Request as one number: milli-cores plus MiB plus the others."""
    others = sum(int(amount) for row, amount in enumerate(vector) if row not in (CPU, MEMORY, PODS))
    return int(vector[CPU]) + int(vector[MEMORY]) / _MIB + others


class Buckets:
    """The buckets of one job.

    Attributes:
        of: bucket by task key.
        on_node: tasks of the job by node column and role.
    """

    def __init__(self, wishes: Wishes, placed: list[tuple[Task, int]], waiting: list[Task]) -> None:
        self.wishes = wishes
        self.all: list[Bucket] = []
        self.of: dict[str, Bucket] = {}
        self.on_node: dict[int, Counter[str]] = {}
        by_node: dict[int, Bucket] = {}
        for task, column in placed:
            if task.role not in wishes.roles:
                continue
            bucket = by_node.get(column) or by_node.setdefault(column, self._new())
            self._put(task, bucket)
            bucket.bound[column] += 1
            self.on_node.setdefault(column, Counter())[task.role] += 1
        # Role by role, so that each of a kind that wants to be apart opens a bucket before others join one.
        ordered = sorted(
            waiting, key=lambda task: (wishes.rank(task.role), task.role, task.ordinal, task.created, task.key)
        )
        for task in ordered:
            if task.role in wishes.roles:
                bucket = self._best(task.role)
                self._put(task, bucket)
                bucket.waiting[task.key] = task
                bucket.weight += _weight(task.pod_class.vector)
        self.largest = max((bucket.size for bucket in self.all), default=0)

    def _new(self) -> Bucket:
        self.all.append(Bucket(len(self.all)))
        return self.all[-1]

    def _put(self, task: Task, bucket: Bucket) -> None:
        bucket.add(task)
        self.of[task.key] = bucket

    def _best(self, role: str) -> Bucket:
        """The bucket that a task wants most, the smallest among equals; a new one where none is welcome."""
        best = max(
            self.all, key=lambda one: (self.wishes.score(role, one.roles), -one.weight, -one.index), default=None
        )
        if best is None or self.wishes.score(role, best.roles) < 0:
            return self._new()
        return best

    def bind(self, task: Task, column: int) -> None:
        """A waiting task got a place."""
        bucket = self.of.get(task.key)
        if bucket is not None and bucket.waiting.pop(task.key, None) is not None:
            bucket.bound[column] += 1
            self.on_node.setdefault(column, Counter())[task.role] += 1

    def release(self, task: Task, column: int) -> None:
        """Its place was taken back."""
        bucket = self.of.get(task.key)
        if bucket is not None and task.key not in bucket.waiting:
            bucket.waiting[task.key] = task
            bucket.bound[column] -= 1
            self.on_node.setdefault(column, Counter())[task.role] -= 1


# task-topology: roles of a job that should share a node, or should not, by annotations of its PodGroup.

_WEIGHT = Argument("task-topology.weight", "int", 1, "multiplies the score")
_HELD = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class TaskTopologyPlugin(Plugin):
    """Sorts the tasks of a job into buckets and keeps each bucket together."""

    name = "task-topology"
    scope = Scope.JOB
    reach = Reach.CLUSTER
    pure = False
    known_arguments = (_WEIGHT,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weight = int(argument_value(_WEIGHT, self.arguments))

    def open(self, session: Session) -> None:
        """Buckets are made when a job is first asked about."""
        self.session = session
        self._buckets: dict[str, Buckets | None] = {}

    def buckets(self, key: str) -> Buckets | None:
        """The buckets of a job as they are now; None where it has no wishes."""
        if key not in self._buckets:
            job = self.session.job(key)
            self._buckets[key] = None if job is None else self._sorted_in(job)
        return self._buckets[key]

    def _sorted_in(self, job: JobState) -> Buckets | None:
        tasks = [task for _, task in sorted(job.record.tasks.items())]
        wishes = read_wishes(job.record.annotations, {task.role for task in tasks})
        if wishes is None:
            return None
        index = self.session.snapshot.nodes.index
        held = [task for task in tasks if task.status in ALLOCATED_STATES and task.node in index]
        return Buckets(
            wishes,
            [(task, index[task.node]) for task in held],
            [task for task in tasks if task.status is TaskStatus.PENDING],
        )

    # ---- order

    def task_key(self, task: Task) -> Key:
        """Tasks of large buckets first, bucket by bucket, roles in their order; tasks without a bucket last."""
        buckets = self.buckets(task.job) if task.job else None
        bucket = buckets.of.get(task.key) if buckets is not None else None
        if buckets is None or bucket is None:
            return 1, 0, 0, (0, 0)
        return 0, -bucket.size, bucket.index, buckets.wishes.rank(task.role)

    # ---- scores

    def concerns(self, pod_class: PodClass) -> bool:
        """Only jobs with wishes are placed task by task."""
        job = self.session.subject
        return bool(self.weight) and job is not None and self.buckets(job.key) is not None

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """By tasks of the bucket that are there, and that would fit there too, less those that want to be apart."""
        job = self.session.subject
        buckets = self.buckets(job.key) if job is not None else None
        task = self._next(job, pod_class) if job is not None and buckets is not None else None
        bucket = buckets.of.get(task.key) if buckets is not None and task is not None else None
        if buckets is None or task is None or bucket is None or not buckets.largest:
            return None
        room = nodes.future_idle
        fits = (room[pod_class.rows] >= pod_class.amounts[:, None]).all(axis=0)
        points = np.array([self._there(buckets, bucket, task, column) for column in nodes.columns.tolist()], np.float64)
        points += self._company(bucket, task, room)
        return np.where(fits, points * self.weight * 100.0 / buckets.largest, 0.0)

    def _next(self, job: JobState, pod_class: PodClass) -> Task | None:
        """The task of the class that is placed next: the first in order that has no place."""
        waiting = [
            task
            for task in job.record.pending.values()
            if task.pod_class.id == pod_class.id and task.key not in job.places and not task.gated
        ]
        order = lambda task: (-task.priority, self.task_key(task), task.ordinal, task.created, task.uid)  # noqa: E731
        return min(waiting, key=order, default=None)

    @staticmethod
    def _there(buckets: Buckets, bucket: Bucket, task: Task, column: int) -> int:
        others = buckets.on_node.get(column)
        apart = buckets.wishes.score(task.role, others, only_apart=True) if others else 0
        return bucket.bound[column] + apart

    def _company(self, bucket: Bucket, task: Task, room: Matrix) -> FloatArray:
        """``[M]`` how many waiting tasks of the bucket, the task included, would fit together on each node.

        Tasks are left out one after the other, last first, until the rest fits.
        """
        size = len(room)
        rest = bucket.request(size)
        left = len(bucket.waiting)
        company = np.full(room.shape[1], 1.0)
        undecided = np.ones(room.shape[1], dtype=np.bool_)
        others = [other for key, other in bucket.waiting.items() if key != task.key]
        while True:
            fits = undecided & ((rest[:, None] <= room) | (rest[:, None] == 0)).all(axis=0)
            company[fits] = left
            undecided &= ~fits
            if not others or not undecided.any():
                return company
            rest = rest - fitted(others.pop().pod_class.vector, size)
            left -= 1

    # ---- events

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Keep the buckets up to date."""
        if TaskStatus.PENDING not in (before, after):
            return
        buckets = self.buckets(job.key)
        if buckets is None:
            return
        for task, column in zip(tasks, nodes, strict=True):
            if after in _HELD:
                buckets.bind(task, column)
            else:
                buckets.release(task, column)
