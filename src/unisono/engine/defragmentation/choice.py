"""Which pods to move: node by node, where a place for one of the gang's pods costs least."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.engine.answers import BoolArray
from unisono.engine.defragmentation.movable import Movable, MovablePods
from unisono.engine.plugins.common.open_nodes import open_nodes

_Option = tuple[float, int, float, int]
"""Cost, number of moves, room left over, node column; the least is the best."""


class Choice:
    """Pods chosen for one gang in one domain.

    Resources of nodes are followed as sums; whether the gang and the moved pods find places by all filters is tried
    afterwards.

    Args:
        pods: those that may be moved.
        columns: nodes of the domain.
        most: moves at most.

    """

    def __init__(self, pods: MovablePods, columns: Sequence[int], most: int) -> None:
        self.nodes = pods.cycle.session.nodes
        self.columns = list(columns)
        self.most = most
        later = self.nodes.allocatable - self.nodes.used + self.nodes.releasing - self.nodes.pipelined
        self._free = {column: later[:, column].copy() for column in self.columns}
        self._left = {column: list(pods.on.get(column, ())) for column in self.columns}
        self._size = np.maximum(self.nodes.allocatable, 1)

    def make_room(self, tasks: Sequence[Task]) -> list[Movable] | None:
        """What has to be moved for all of the tasks, the largest first; None when there is no such choice."""
        classes: dict[int, tuple[PodClass, int]] = {}
        for task in tasks:
            known = classes.get(task.pod_class.id, (task.pod_class, 0))
            classes[task.pod_class.id] = known[0], known[1] + 1
        total = np.maximum(self.nodes.allocatable.sum(axis=1), 1)
        largest = sorted(classes.values(), key=lambda each: -float((self._vector(each[0]) / total).max()))
        chosen: list[Movable] = []
        for pod_class, number in largest:
            found = self._for_class(pod_class, number, self.most - len(chosen))
            if found is None:
                return None
            chosen += found
        return chosen

    def _vector(self, pod_class: PodClass) -> Vector:
        return fitted(pod_class.vector, len(self.nodes.allocatable))

    def _for_class(self, pod_class: PodClass, number: int, most: int) -> list[Movable] | None:
        asked, usable = self._vector(pod_class), open_nodes(pod_class, self.nodes)
        heap: list[tuple[_Option, tuple[Movable, ...]]] = []
        for column in self.columns:
            self._offer(heap, asked, column, usable)
        chosen: list[Movable] = []
        for _ in range(number):
            if not heap:
                return None
            (_, _, _, column), moved = heapq.heappop(heap)
            chosen += moved
            if len(chosen) > most:
                return None
            self._free[column] += sum((each.held for each in moved), np.zeros_like(asked)) - asked
            gone = {each.task.key for each in moved}
            self._left[column] = [each for each in self._left[column] if each.task.key not in gone]
            self._offer(heap, asked, column, usable)
        return chosen

    def _offer(
        self, heap: list[tuple[_Option, tuple[Movable, ...]]], asked: Vector, column: int, usable: BoolArray
    ) -> None:
        moved = self._cheapest(asked, column) if usable[column] else None
        if moved is not None:
            left = self._free[column] - asked + sum((each.held for each in moved), np.zeros_like(asked))
            over = float((left / self._size[:, column]).sum())
            # The column makes every option different, so that pods are never compared.
            heapq.heappush(heap, ((sum(each.cost for each in moved), len(moved), over, column), tuple(moved)))

    def _cheapest(self, asked: Vector, column: int) -> list[Movable] | None:
        """Pods of one node to move for one pod: the cheapest by what they free, without those that are not needed."""
        lacking = np.where(asked > 0, asked - self._free[column], 0)
        if not (lacking > 0).any():
            return []
        rows = np.flatnonzero(lacking > 0)
        taken: list[Movable] = []

        def worth(each: Movable) -> tuple[float, str]:
            helped = float((np.minimum(each.held[rows], lacking[rows]) / lacking[rows]).sum())
            return (each.cost / helped if helped > 0 else float("inf")), each.task.key

        held = np.zeros_like(lacking)
        for each in sorted(self._left[column], key=worth):
            if (held[rows] >= lacking[rows]).all():
                break
            if (each.held[rows] > 0).any():
                taken.append(each)
                held += each.held
        if not (held[rows] >= lacking[rows]).all():
            return None
        for each in sorted(taken, key=lambda one: (-one.cost, one.task.key)):
            if ((held - each.held)[rows] >= lacking[rows]).all():
                taken.remove(each)
                held -= each.held
        return taken
