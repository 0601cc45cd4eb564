"""Room that is promised to pods which are to come, and pods that name their node themselves (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from unisono.api.annotations import DISPATCH, ORIGIN_UID
from unisono.cluster.nodes import NodeTable
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted, total
from unisono.cluster.status import TaskStatus


@dataclass(slots=True)
class AssumedBind:
    """A bind on its way; ``before`` are the pod's annotations without what the bind writes."""

    uid: str
    node: str
    annotations: Mapping[str, str]
    before: Mapping[str, str]


# Pods that name their node themselves: what the node is going to refuse holds nothing.
#
# Any user may write ``spec.nodeName``. A node accepts such pods in the order in which they come, as far as it has room,
# and says so by ``status.startTime``; the others fail. Until it has spoken, a pod that names a node which does not
# exist, or which has no room for it beside the others, must not count as the share of a queue, nor fill the node.

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
        changed: list[Task] = []
        for name in sorted(self._stale):
            # One that is being evicted is as good as gone.
            claims = {key: task for key, task in self._tasks.get(name, {}).items() if task.status in _UNDECIDED}
            row = nodes.index.get(name)
            if row is None:
                taken: set[str] = set()
            else:
                firm = [task.pod_class.vector for key, task in on_node.get(name, {}).items() if key not in claims]
                taken = _accepted(nodes.allocatable[:, row], firm, claims.values())
            changed += [task for key, task in claims.items() if (key in taken) is not holds(task)]
        self._stale.clear()
        return changed


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


# Room that is promised to pods which are to come: it counts as used for everybody but its owner (pure).
#
# A promise has an owner, the PodGroup of the job that a hub sends, and an end. For each pod that is to come a task
# stands on its node, so that the room is free for its owner alone; the amounts of all that stand count as held by the
# owner when it is asked what there is room for. Who is told of a promise must end it: this module knows no clock.


def owner_of(namespace: str, labels: Mapping[str, str]) -> str:
    """Who may use a promise, by namespace and labels of a PodGroup or pod; empty for what no hub has sent."""
    uid = labels.get(ORIGIN_UID, "")
    return f"{namespace}/{uid}.{labels.get(DISPATCH, '')}" if uid else ""


@dataclass(slots=True)
class Promise:
    """Room for the pods of one owner.

    Attributes:
        owner: see `owner_of`.
        until: when it ends, seconds since 1970.
        stands: keys of the tasks that stand for pods which are to come.
    """

    owner: str
    until: float
    stands: set[str] = field(default_factory=set)


class Promises:
    """All promises of a cluster state, by a key that who makes them chooses."""

    def __init__(self) -> None:
        self.by_key: dict[str, Promise] = {}
        self.stands: set[str] = set()

    def put(self, key: str, promise: Promise) -> None:
        """Take in a promise that is new."""
        self.by_key[key] = promise
        self.stands |= promise.stands

    def end(self, key: str, stands: Collection[str] | None = None) -> list[str]:
        """End a promise, or as much of it as stands for these pods; answers which stood."""
        promise = self.by_key.get(key)
        if promise is None:
            return []
        gone = sorted(promise.stands if stands is None else promise.stands.intersection(stands))
        promise.stands.difference_update(gone)
        self.stands.difference_update(gone)
        if not promise.stands:
            del self.by_key[key]
        return gone

    def amounts(self, tasks: Mapping[str, Task], width: int) -> dict[str, Vector]:
        """``[R]`` by owner: what stands on nodes that have room for it."""
        vectors_by_owner: dict[str, list[Vector]] = {}
        for promise in self.by_key.values():
            standing: Iterable[Task] = (tasks[key] for key in promise.stands if key in tasks)
            vectors_by_owner.setdefault(promise.owner, []).extend(
                task.pod_class.vector for task in standing if holds(task)
            )
        return {
            owner: total(np.array([fitted(vector, width) for vector in vectors]), 0)
            for owner, vectors in vectors_by_owner.items()
            if vectors
        }
