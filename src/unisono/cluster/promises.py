"""Room that is promised to pods which are to come: it counts as used for everybody but its owner (pure).

A promise has an owner, the PodGroup of the job that a hub sends, and an end. For each pod that is to come a task stands
on its node, and nobody else gets that room; the amounts of all that stand are the owner's, who has them already where
it is asked what there is room for. Who is told of a promise must end it: this module knows no clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from unisono.api.annotations import DISPATCH, ORIGIN_UID
from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.cluster.self_placed import holds
from unisono.cluster.sums import total


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
        found: dict[str, list[Vector]] = {}
        for promise in self.by_key.values():
            standing: Iterable[Task] = (tasks[key] for key in promise.stands if key in tasks)
            found.setdefault(promise.owner, []).extend(task.pod_class.vector for task in standing if holds(task))
        return {
            owner: total(np.array([fitted(vector, width) for vector in vectors]), 0)
            for owner, vectors in found.items()
            if vectors
        }
