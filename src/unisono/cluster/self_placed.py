"""Pods that name their node themselves: what the node is going to refuse holds nothing.

Any user may write ``spec.nodeName``. A node accepts such pods in the order in which they come, as far as it has room,
and says so by ``status.startTime``; the others fail. Until it has spoken, a pod that names a node which does not exist,
or which has no room for it beside the others, must not count as the share of a queue, nor fill the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from unisono.cluster.nodes import NodeTable
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.cluster.sums import total

_UNDECIDED = (TaskStatus.BOUND, TaskStatus.PENDING)


class SelfPlaced:
    """Pods of which their nodes have said nothing yet, by node, and nodes that have to be looked at again."""

    def __init__(self) -> None:
        self._tasks: dict[str, dict[str, Task]] = {}
        self._stale: set[str] = set()

    def add(self, task: Task) -> None:
        """A pod names its node."""
        self._tasks.setdefault(task.named_node, {})[task.key] = task
        self._stale.add(task.named_node)

    def remove(self, task: Task) -> None:
        """It is gone, or its node has spoken."""
        held = self._tasks.get(task.named_node, {})
        if held.pop(task.key, None) is not None:
            self.touch(task.named_node)
        if not held:
            self._tasks.pop(task.named_node, None)

    def touch(self, node: str) -> None:
        """Something about the node, or about the pods there, has changed."""
        if node in self._tasks:
            self._stale.add(node)

    def clear(self) -> None:
        """Forget all pods."""
        self._tasks.clear()
        self._stale.clear()

    def changes(self, nodes: NodeTable, on_node: Mapping[str, Mapping[str, Task]]) -> list[Task]:
        """Pods that must change sides: that hold their node and are going to be refused, or the other way round.

        Args:
            nodes: settled.
            on_node: pods that hold each node, by key.

        """
        found: list[Task] = []
        for name in sorted(self._stale):
            # One that is being evicted is as good as gone.
            claims = {key: task for key, task in self._tasks.get(name, {}).items() if task.status in _UNDECIDED}
            row = nodes.index.get(name)
            if row is None:
                taken: set[str] = set()
            else:
                firm = [task.pod_class.vector for key, task in on_node.get(name, {}).items() if key not in claims]
                taken = _accepted(nodes.allocatable[:, row], firm, claims.values())
            found += [task for key, task in claims.items() if (key in taken) is not holds(task)]
        self._stale.clear()
        return found


def holds(task: Task) -> bool:
    """Whether a pod that names its node counts as being there."""
    return task.status is TaskStatus.BOUND


def set_aside(task: Task) -> None:
    """Let a pod hold nothing, and get no node from us either, until its node has spoken."""
    task.status, task.node, task.gated = TaskStatus.PENDING, "", True


def take_back(task: Task) -> None:
    """Let it hold the node that it names."""
    task.status, task.node, task.gated = TaskStatus.BOUND, task.named_node, False


def _accepted(allocatable: Vector, firm: list[Vector], claims: Iterable[Task]) -> set[str]:
    """Keys of the pods that a node has room for beside those that it has accepted, the oldest first."""
    free = allocatable.copy()
    if firm:
        free -= total(np.array([fitted(vector, len(free)) for vector in firm]), 0)
    taken = set()
    for task in sorted(claims, key=lambda task: (task.created, task.key)):
        vector = fitted(task.pod_class.vector, len(free))
        if bool(((vector <= free) | (vector == 0)).all()):
            free -= vector
            taken.add(task.key)
    return taken
