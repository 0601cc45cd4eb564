"""Strategies that look at one pod, or at pods of one job on one node; their names are the descheduler's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.cluster.records import Task
from unisono.cluster.taints import repels
from unisono.engine.plugins.common.node_selectors import match_pod
from unisono.engine.plugins.rescheduling.common import Room, Spares
from unisono.engine.plugins.rescheduling.company import Company, Crowds
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

POD_LIFE_TIME, DUPLICATES = "podLifeTime", "removeDuplicates"
NODE_AFFINITY = "removePodsViolatingNodeAffinity"
NODE_TAINTS = "removePodsViolatingNodeTaints"
ANTI_AFFINITY = "removePodsViolatingInterPodAntiAffinity"
SPREAD = "removePodsViolatingTopologySpreadConstraint"
NAMES = (POD_LIFE_TIME, DUPLICATES, NODE_AFFINITY, NODE_TAINTS, ANTI_AFFINITY, SPREAD)
"""Strategies that this module has."""
_OWN_PARAMETERS: Mapping[str, str] = {POD_LIFE_TIME: "maxPodLifeTimeSeconds", SPREAD: "includeSoftConstraints"}
_CRITICAL = 2_000_000_000
"""Value of ``system-cluster-critical``."""


@dataclass(frozen=True, slots=True)
class SinglePods:
    """A strategy that names pods, of which those leave that their jobs can miss and that fit elsewhere.

    Attributes:
        name: the strategy.
        below: pods of this priority and above stay.
        seconds: of podLifeTime: how long a pod may run.
        soft: of the topology spread: also look at constraints with ScheduleAnyway.

    """

    name: str
    below: int
    seconds: float = 0.0
    soft: bool = False

    @classmethod
    def read(cls, name: str, params: Mapping[str, Any]) -> SinglePods:
        """From ``params``; raises ConfigError that names the key."""
        own = _OWN_PARAMETERS.get(name)
        known = {"thresholdPriority"} | ({own} if own else set())
        for key, value in params.items():
            if key not in known:
                raise ConfigError(f"rescheduling: {name} has no parameter {key}; it has {', '.join(sorted(known))}")
            if key == "includeSoftConstraints":
                if not isinstance(value, bool):
                    raise ConfigError(f"rescheduling: {name}: {key} must be true or false")
            elif not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"rescheduling: {name}: {key} must be a whole number without quotes")
        seconds = params.get("maxPodLifeTimeSeconds", 0)
        if name == POD_LIFE_TIME and seconds <= 0:
            raise ConfigError(f"rescheduling: {name} needs maxPodLifeTimeSeconds, a whole number above 0")
        soft = params.get("includeSoftConstraints", False)
        return cls(name, params.get("thresholdPriority", _CRITICAL), float(seconds), soft)

    def choose(self, session: Session, candidates: Sequence[Task], spares: Spares) -> list[Task]:
        """Which of the running pods to move, in order of their keys."""
        room = Room(session)
        places = self._places(session, candidates)
        chosen: list[Task] = []
        for task in sorted(candidates, key=lambda task: task.key):
            if task.priority >= self.below or not task.remade or not self._names(session, task, places):
                continue
            # A pod that is only old may come back to its node.
            where = 0 if self.name == POD_LIFE_TIME else room.take(task, self._besides(session, task, places))
            if where < 0 or not spares.take(task):
                continue
            places.move(task, where)
            chosen.append(task)
        return chosen

    def _places(self, session: Session, candidates: Sequence[Task]) -> _Places | Company | Crowds:
        """What the strategy has to know of other pods."""
        if self.name == ANTI_AFFINITY:
            return Company(session)
        return Crowds(session, soft=self.soft) if self.name == SPREAD else _Places(session, candidates)

    def _names(self, session: Session, task: Task, places: _Places | Company | Crowds) -> bool:
        """Whether the pod should not be where it is."""
        column = session.snapshot.nodes.index[task.node]
        if isinstance(places, Company):
            return places.conflicts(task, column)
        if isinstance(places, Crowds):
            return places.crowded(task)
        if self.name == POD_LIFE_TIME:
            return session.now - (task.since or task.created) > self.seconds
        if self.name == DUPLICATES:
            return places.alike(task)[column] > 1
        if self.name == NODE_TAINTS:
            return repels(session.snapshot.nodes.facts[column].taints, task.pod_class.tolerations)
        return not match_pod(task.pod_class, session.nodes)[column]

    def _besides(self, session: Session, task: Task, places: _Places | Company | Crowds) -> list[int]:
        """Nodes that would be no better: its own, and those where the strategy would name it again."""
        own = session.snapshot.nodes.index[task.node]
        if isinstance(places, Company):
            return [own, *(at for at in range(session.nodes.size) if places.conflicts(task, at))]
        if isinstance(places, Crowds):
            return [at for at in range(session.nodes.size) if at == own or not places.better(task, at)]
        alike = (at for at, number in places.alike(task).items() if number) if self.name == DUPLICATES else ()
        return [own, *alike]


class _Places:
    """How many equal pods of each job are on which node."""

    def __init__(self, session: Session, tasks: Sequence[Task]) -> None:
        self._index = session.snapshot.nodes.index
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
