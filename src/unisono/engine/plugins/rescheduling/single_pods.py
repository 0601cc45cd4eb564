"""Strategies that look at one pod, or at pods of one job on one node; their names are the descheduler's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.cluster.records import Task
from unisono.engine.plugins.common.node_selectors import match_pod
from unisono.engine.plugins.rescheduling.common import Room, Spares
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

POD_LIFE_TIME, DUPLICATES = "podLifeTime", "removeDuplicates"
NODE_AFFINITY = "removePodsViolatingNodeAffinity"
_CRITICAL = 2_000_000_000
"""Value of ``system-cluster-critical``."""


@dataclass(frozen=True, slots=True)
class SinglePods:
    """A strategy that names pods, of which those leave that their jobs can miss and that fit elsewhere.

    Attributes:
        name: the strategy.
        below: pods of this priority and above stay.
        seconds: of podLifeTime: how long a pod may run.

    """

    name: str
    below: int
    seconds: float = 0.0

    @classmethod
    def read(cls, name: str, params: Mapping[str, Any]) -> SinglePods:
        """From ``params``; raises ConfigError that names the key."""
        known = {"thresholdPriority"} | ({"maxPodLifeTimeSeconds"} if name == POD_LIFE_TIME else set())
        for key in params:
            if key not in known:
                raise ConfigError(f"rescheduling: {name} has no parameter {key}; it has {', '.join(sorted(known))}")
        for key, value in params.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"rescheduling: {name}: {key} must be a whole number without quotes")
        seconds = params.get("maxPodLifeTimeSeconds", 0)
        if name == POD_LIFE_TIME and seconds <= 0:
            raise ConfigError(f"rescheduling: {name} needs maxPodLifeTimeSeconds, a whole number above 0")
        return cls(name, params.get("thresholdPriority", _CRITICAL), float(seconds))

    def choose(self, session: Session, candidates: Sequence[Task]) -> list[Task]:
        """Which of the running pods to move, in order of their keys."""
        room, spares = Room(session), Spares(session)
        places = _Places(session, candidates)
        chosen: list[Task] = []
        for task in sorted(candidates, key=lambda task: task.key):
            if task.priority >= self.below or not task.remade or not self._names(session, task, places):
                continue
            # A pod that is only old may come back to its node.
            where = 0 if self.name == POD_LIFE_TIME else room.take(task, self._besides(task, places))
            if where < 0 or not spares.take(task):
                continue
            places.move(task, where)
            chosen.append(task)
        return chosen

    def _names(self, session: Session, task: Task, places: _Places) -> bool:
        """Whether the pod should not be where it is."""
        column = places.column(task)
        if self.name == POD_LIFE_TIME:
            return session.now - (task.since or task.created) > self.seconds
        if self.name == DUPLICATES:
            return places.alike(task)[column] > 1
        return not match_pod(task.pod_class, session.nodes)[column]

    def _besides(self, task: Task, places: _Places) -> list[int]:
        """Nodes that would be no better: its own, and those that have a pod like it."""
        own = [places.column(task)]
        return [*own, *(at for at, number in places.alike(task).items() if number)] if self.name == DUPLICATES else own


class _Places:
    """How many equal pods of each job are on which node."""

    def __init__(self, session: Session, tasks: Sequence[Task]) -> None:
        self._index = session.nodes.table.index
        self._held: dict[tuple[str, int], Counter[int]] = {}
        for task in tasks:
            self.alike(task)[self.column(task)] += 1

    def column(self, task: Task) -> int:
        """Of the node that the pod runs on."""
        return self._index[task.node]

    def alike(self, task: Task) -> Counter[int]:
        """Pods of its job and class by node."""
        return self._held.setdefault((task.job, task.pod_class.id), Counter())

    def move(self, task: Task, column: int) -> None:
        """It leaves its node for another one."""
        self.alike(task)[self.column(task)] -= 1
        self.alike(task)[column] += 1
