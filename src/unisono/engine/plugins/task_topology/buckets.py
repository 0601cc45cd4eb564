"""Tasks of one job sorted into buckets that should share a node, by affinities among roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from unisono.api.keys import TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_ORDER
from unisono.cluster.records import Task
from unisono.cluster.resources import CPU, MEMORY, PODS, Vector, fitted

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
    known = set(roles)
    near, apart = (_groups(annotations.get(key, "")) for key in (TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY))
    order = _names(annotations.get(TASK_TOPOLOGY_ORDER, ""))
    if not near and not apart:
        return None
    named = [*(role for group in (*near, *apart) for role in group), *order]
    if any(role not in known for role in named):
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
