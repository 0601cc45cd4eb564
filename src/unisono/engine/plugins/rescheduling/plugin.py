"""rescheduling: moves pods from busy nodes to idle ones, every few minutes (action shuffle).

A moved pod is evicted and made again; where the new one goes is decided as for any other pod. So that moving does not
go on for ever, a pod is moved only when it would fit on a node that stays below its target with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unisono.api.times import parse_duration
from unisono.cluster.records import Task
from unisono.cluster.resources import CPU, MEMORY, fitted
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common.annotations import measured
from unisono.engine.plugins.rescheduling import single_pods
from unisono.engine.plugins.rescheduling.single_pods import NAMES, FailedPods, Room, SinglePods, Spares
from unisono.engine.plugins.usage import limits_of
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

# The strategies that look at nodes' load: away from busy nodes, and off nearly empty ones.

# highNodeUtilization: empties nodes that are hardly asked for, so that they can be given back or take large pods.

_CRITICAL = 2_000_000_000
"""Value of ``system-cluster-critical``."""
_HIGH_OWNER = "rescheduling: highNodeUtilization"


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
        accepted = ("numberOfNodes", "thresholdPriority", "thresholds")
        for key, value in params.items():
            if key not in accepted:
                raise ConfigError(f"{_HIGH_OWNER} has no parameter {key}; it has {', '.join(accepted)}")
            if key != "thresholds" and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{_HIGH_OWNER}: {key} must be a whole number without quotes")
        given = params.get("thresholds")
        if not isinstance(given, Mapping) or not given:
            raise ConfigError(f"{_HIGH_OWNER} needs thresholds, a map such as {{cpu: 20, nvidia.com/gpu: 30}}")
        for name, value in given.items():
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100:
                raise ConfigError(
                    f"{_HIGH_OWNER}: thresholds.{name} must be a whole number from 0 to 100, not {value!r}"
                )
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


# lowNodeUtilization: from nodes above a target to nodes below a threshold, as much as those can take.

_ROWS = [CPU, MEMORY]
_DIMENSIONS = ("cpu", "memory")
_IGNORED = ("pods", "pod")
"""Value of ``system-cluster-critical``."""
_LOW_OWNER = "rescheduling: lowNodeUtilization"


@dataclass(frozen=True, slots=True)
class LowNodeUtilization:
    """The strategy.

    Attributes:
        low: percent of cpu and memory below which a node takes more.
        target: percent above which a node gives pods away, and that no node is brought above.
        least_low: acts only when more nodes than this are low.
        below: pods of this priority and above stay.
        below_class: the PriorityClass that says so, "" when ``below`` is given.
        must_fit: a pod is moved only when a low node could take it.
    """

    low: tuple[float, float]
    target: tuple[float, float]
    least_low: int
    below: int
    below_class: str
    must_fit: bool

    @classmethod
    def read(cls, params: Mapping[str, Any]) -> LowNodeUtilization:
        """From ``params`` as in Volcano's file; raises ConfigError that names the key."""
        accepted = {"thresholds", "targetThresholds", "numberOfNodes", "nodeFit"}
        accepted |= {"thresholdPriority", "thresholdPriorityClassName"}
        for key in params:
            if key not in accepted:
                raise ConfigError(f"{_LOW_OWNER} has no parameter {key}; it has {', '.join(sorted(accepted))}")
        low, target = _percents(params, "thresholds"), _percents(params, "targetThresholds")
        for name, one, other in zip(_DIMENSIONS, low, target, strict=True):
            if one > other:
                raise ConfigError(f"{_LOW_OWNER}: thresholds.{name} must not be above targetThresholds.{name}")
        number, priority = params.get("numberOfNodes", 0), params.get("thresholdPriority")
        for key, value in (("numberOfNodes", number), ("thresholdPriority", priority)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
                raise ConfigError(f"{_LOW_OWNER}: {key} must be a whole number without quotes")
        named, fit = params.get("thresholdPriorityClassName", ""), params.get("nodeFit", True)
        if not isinstance(named, str) or not isinstance(fit, bool):
            raise ConfigError(f"{_LOW_OWNER}: thresholdPriorityClassName must be a name, nodeFit true or false")
        return cls(low, target, number, _CRITICAL if priority is None else priority, named, fit)

    def choose(self, session: Session, candidates: Sequence[Task], spares: Spares) -> list[Task]:
        """Which of the running pods to move."""
        nodes = session.nodes
        percent = _load(session)
        has_load = ~np.isnan(percent).any(axis=0)
        usable = nodes.table.ready & ~nodes.table.unschedulable
        low = has_load & usable & (percent < np.array(self.low)[:, None]).all(axis=0)
        high = has_load & ~low & (percent > np.array(self.target)[:, None]).any(axis=0)
        if int(low.sum()) <= self.least_low or low.all() or not high.any():
            return []
        plan = _Moves(session, self, percent, low, spares)
        pods: dict[str, list[Task]] = {}
        limit = session.snapshot.priorities.get(self.below_class, self.below) if self.below_class else self.below
        for task in candidates:
            if task.priority < limit:
                pods.setdefault(task.node, []).append(task)
        columns = np.flatnonzero(high)
        for column in columns[np.argsort(-percent[:, columns].sum(axis=0), kind="stable")].tolist():
            for task in sorted(pods.get(nodes.table.names[column], ()), key=_rank):
                if not (plan.percent[:, column] > np.array(self.target)).any():
                    break
                plan.move(task, column)
        return plan.moved


class _Moves:
    """Pods taken from high nodes, and what is left of the room on low ones."""

    def __init__(
        self, session: Session, strategy: LowNodeUtilization, percent: FloatArray, low: BoolArray, spares: Spares
    ) -> None:
        self.session = session
        self.strategy = strategy
        self.percent = percent.copy()
        self.moved: list[Task] = []
        nodes = session.nodes
        self._capacity = np.maximum(nodes.allocatable[_ROWS].astype(np.float64), 1.0)
        self._low = low
        room = (np.array(strategy.target)[:, None] - percent) / 100.0 * self._capacity
        self._room = np.where(low, np.nan_to_num(room), 0.0)
        self._free = Room(session)
        self._spares = spares

    def move(self, task: Task, column: int) -> None:
        """Take a pod off its node if another node can take it, its job can miss it, and the node is relieved by it."""
        job, asked = self.session.job(task.job), fitted(task.pod_class.vector, self.session.rows)
        over = self.percent[:, column] > np.array(self.strategy.target)
        request = asked[_ROWS].astype(np.float64)
        if job is None or not (request[over] > 0).any() or (request > self._room.sum(axis=1)).any():
            return
        where = self._place(task, request)
        if where is None or not self._spares.take(task):
            return
        if where >= 0:
            self._room[:, where] -= request
            self._free.fill(task.pod_class, where)
        else:
            self._room *= 1.0 - request[:, None] / np.maximum(self._room.sum(axis=1), 1.0)[:, None]
        self.percent[:, column] -= request / self._capacity[:, column] * 100.0
        self.moved.append(task)

    def _place(self, task: Task, request: FloatArray) -> int | None:
        """A low node that has room for the pod, the roomiest first; -1 when none is asked for; None: there is none."""
        if not self.strategy.must_fit:
            return -1
        fits = self._low & self._free.fits(task.pod_class) & (self._room >= request[:, None]).all(axis=0)
        if not fits.any():
            return None
        spare_room = (self._room / self._capacity).sum(axis=0)
        return int(np.where(fits, spare_room, -np.inf).argmax())


def _load(session: Session) -> FloatArray:
    """``[2, N]`` percent of cpu and memory: measured; where no node is measured at all, what is requested.

    NaN for nodes without a fresh value while others have one.
    """
    nodes = session.nodes
    loads = [measured(session, column) for column in range(nodes.size)]
    if any(load is not None for load in loads):
        pairs = [(load.cpu, load.memory) if load is not None else (np.nan, np.nan) for load in loads]
        return np.array(pairs, dtype=np.float64).reshape(nodes.size, 2).T
    capacity = np.maximum(nodes.allocatable[_ROWS].astype(np.float64), 1.0)
    staying = nodes.used[_ROWS] - nodes.releasing[_ROWS]
    return np.asarray(staying / capacity * 100.0, dtype=np.float64)


def _rank(task: Task) -> tuple[int, int, str]:
    """Low priority first, then BestEffort, Burstable, Guaranteed."""
    requests, limits = task.pod_class.requests, limits_of(task.pod_class)
    asked = [requests.get(name, 0) for name in _DIMENSIONS]
    guaranteed = all(asked) and asked == [limits.get(name) for name in _DIMENSIONS]
    return task.priority, int(any(asked)) + int(guaranteed), task.key


def _percents(params: Mapping[str, Any], key: str) -> tuple[float, float]:
    """The percents for cpu and memory in one of the two maps; 100 where it says nothing."""
    given = params.get(key) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{_LOW_OWNER}: {key} must be a map such as {{cpu: 20, memory: 20}}")
    for name, value in given.items():
        if name not in (*_DIMENSIONS, *_IGNORED):
            raise ConfigError(f"{_LOW_OWNER}: {key} has no {name}; it has cpu, memory and pods")
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 100:
            raise ConfigError(f"{_LOW_OWNER}: {key}.{name} must be a whole number from 0 to 100, not {value!r}")
    low = [float(given.get(name, 100)) for name in _DIMENSIONS]
    return low[0], low[1]


_INTERVAL = Argument(
    "interval", "duration", "5m", "least time between two looks; the first is that long after the start"
)
_PERIOD = Argument(
    "metricsPeriod", "duration", "5m", "load is always averaged over ten minutes; no effect", effective=False
)
_STRATEGIES = Argument("strategies", "list", None, "what to look for, a list of `{name, params}`; see below")

_Strategy = LowNodeUtilization | HighNodeUtilization | SinglePods | FailedPods
_READERS: Mapping[str, Callable[[Mapping[str, Any]], _Strategy]] = {
    "lowNodeUtilization": LowNodeUtilization.read,
    "highNodeUtilization": HighNodeUtilization.read,
    single_pods.NAME: FailedPods.read,
    **{name: partial(SinglePods.read, name) for name in NAMES},
}

_NEVER_BUILT = ("offlineOnly", "lowPriorityFirst", "shortLifeTimeFirst", "bigObjectFirst", "moreReplicasFirst")
"""Strategies that stand in Volcano's guides alone."""


@dataclass(slots=True)
class _LastLook:
    """When nodes were last looked at, seconds since the epoch; None: never."""

    at: float | None = None


class ReschedulingPlugin(Plugin):
    """Strategies that name running pods to be moved, and failed ones to be removed."""

    name = "rescheduling"
    known_arguments = (_INTERVAL, _PERIOD, _STRATEGIES)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.interval = parse_duration(str(argument_value(_INTERVAL, self.arguments)))
        listed = argument_value(_STRATEGIES, self.arguments) or []
        self.strategies = [_strategy(entry) for entry in listed]

    def open(self, session: Session) -> None:
        """Keep the session."""
        self.session = session

    def shuffled(self, candidates: Sequence[Task]) -> BoolArray | None:
        """Once per interval, what any strategy names, of the pods that have run for an interval.

        What has run for less is not in the measured load yet, and may have been moved by the last look. Failed pods
        are for the strategy that removes those.
        """
        now, last = self.session.now, self.session.snapshot.memo.of(_LastLook, _LastLook)
        if last.at is None or now < last.at:
            last.at = now
            return None
        if now - last.at < self.interval:
            return None
        last.at = now
        failed = [task for task in candidates if task.status is TaskStatus.FAILED]
        running = (task for task in candidates if task.status is not TaskStatus.FAILED)
        settled = [task for task in running if now - (task.since or task.created) >= self.interval]
        named: set[str] = set()
        spares = Spares(self.session)  # what one strategy takes of a job is gone for the next one
        for strategy in self.strategies:
            seen = failed if isinstance(strategy, FailedPods) else settled
            left = [task for task in seen if task.key not in named]
            named.update(task.key for task in strategy.choose(self.session, left, spares))
        return np.array([task.key in named for task in candidates], dtype=np.bool_)


def _strategy(entry: Any) -> _Strategy:
    """One entry of ``strategies``."""
    name = entry.get("name") if isinstance(entry, Mapping) else None
    read = _READERS.get(name) if isinstance(name, str) else None
    if read is None:
        built = "; it is a design of Volcano that no version has built: remove it" if name in _NEVER_BUILT else ""
        raise ConfigError(f"rescheduling: unknown strategy {name}{built}; strategies are {', '.join(sorted(_READERS))}")
    params = entry.get("params")
    if params is not None and not isinstance(params, Mapping):
        raise ConfigError(f"rescheduling: params of {name} must be a map, such as {{thresholds: {{cpu: 20}}}}")
    return read(params or {})
