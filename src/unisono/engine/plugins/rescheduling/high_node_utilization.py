"""highNodeUtilization: empties nodes that are hardly asked for, so that they can be given back or take large pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.plugins.rescheduling.common import Room, Spares
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

_CRITICAL = 2_000_000_000
"""Value of ``system-cluster-critical``."""
_OWNER = "rescheduling: highNodeUtilization"


@dataclass(frozen=True, slots=True)
class HighNodeUtilization:
    """The strategy; it goes by what pods request, as the descheduler does.

    Attributes:
        thresholds: percent by resource name; a node is hardly asked for that is below all of them.
        least_low: acts only when more nodes than this are so.
        below: pods of this priority and above stay, and with them all others of their node.

    """

    thresholds: Mapping[str, int]
    least_low: int
    below: int

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> HighNodeUtilization:
        """From ``params``; raises ConfigError that names the key."""
        known = ("numberOfNodes", "thresholdPriority", "thresholds")
        for key, value in params.items():
            if key not in known:
                raise ConfigError(f"{_OWNER} has no parameter {key}; it has {', '.join(known)}")
            if key != "thresholds" and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{_OWNER}: {key} must be a whole number without quotes")
        given = params.get("thresholds")
        if not isinstance(given, Mapping) or not given:
            raise ConfigError(f"{_OWNER} needs thresholds, a map such as {{cpu: 20, nvidia.com/gpu: 30}}")
        for name, value in given.items():
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100:
                raise ConfigError(f"{_OWNER}: thresholds.{name} must be a whole number from 0 to 100, not {value!r}")
        return cls(dict(given), params.get("numberOfNodes", 0), params.get("thresholdPriority", _CRITICAL))

    def choose(self, session: Session, candidates: Sequence[Task], spares: Spares) -> list[Task]:
        """Pods of the nodes that can be emptied whole, those with least first."""
        nodes = session.nodes
        rows = [row for name in self.thresholds if (row := nodes.table.registry.find(name)) is not None]
        bounds = [bound for name, bound in self.thresholds.items() if nodes.table.registry.find(name) is not None]
        if not rows:
            return []
        capacity = nodes.allocatable[rows].astype(np.float64)
        share = np.where(capacity > 0, 100.0 * nodes.used[rows] / np.maximum(capacity, 1.0), 0.0)
        usable = nodes.table.ready & ~nodes.table.unschedulable
        low = usable & (share < np.array(bounds, dtype=np.float64)[:, None]).all(axis=0)
        if int(low.sum()) <= self.least_low or low.all():
            return []
        movable: dict[str, list[Task]] = {}
        for task in candidates:
            if task.priority < self.below and task.remade:
                movable.setdefault(task.node, []).append(task)
        chosen: list[Task] = []
        room = Room(session)
        columns = np.flatnonzero(low)
        for column in columns[np.argsort(share[:, columns].sum(axis=0), kind="stable")].tolist():
            name = nodes.table.names[column]
            tasks = sorted(movable.get(name, ()), key=lambda task: (-task.pod_class.amounts.sum(), task.key))
            if tasks and len(tasks) == _here(session, name):
                chosen += _emptied(tasks, room, spares, np.flatnonzero(low).tolist())
        return chosen


def _here(session: Session, node: str) -> int:
    """Pods on a node that would have to go: not those that every node has, which name no PodGroup of ours."""
    return sum(1 for task in session.snapshot.tasks_on.get(node, {}).values() if task.owned)


def _emptied(tasks: Sequence[Task], room: Room, spares: Spares, besides: Sequence[int]) -> list[Task]:
    """All pods of a node, if each finds a place on a node that stays, and its job can miss it; else none."""
    trial, left = room.copy(), spares.copy()
    if not all(trial.take(task, besides) >= 0 and left.take(task) for task in tasks):
        return []
    room.become(trial)
    spares.become(left)
    return list(tasks)
