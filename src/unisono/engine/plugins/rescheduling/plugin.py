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
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.rescheduling import single_pods
from unisono.engine.plugins.rescheduling.node_utilization import HighNodeUtilization, LowNodeUtilization
from unisono.engine.plugins.rescheduling.single_pods import NAMES, FailedPods, SinglePods, Spares
from unisono.errors import ConfigError

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

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
        raise ConfigError(f"rescheduling: unknown strategy {name}; strategies are {', '.join(sorted(_READERS))}")
    params = entry.get("params")
    if params is not None and not isinstance(params, Mapping):
        raise ConfigError(f"rescheduling: params of {name} must be a map, such as {{thresholds: {{cpu: 20}}}}")
    return read(params or {})
