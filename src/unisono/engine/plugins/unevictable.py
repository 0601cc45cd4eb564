"""cdp and conformance: pods that are not evicted, since they have just started or the cluster needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import COOLDOWN_TIME
from unisono.api.times import duration_or_none
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session


# cdp: a pod that has just started is not evicted again for a while. No arguments.
#
# The while is the pod's label or annotation ``volcano.sh/cooldown-time``, such as ``10m``.


class CdpPlugin(Plugin):
    """Cool-down protection."""

    name = "cdp"
    protects = True
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Remember the time."""
        self.now = session.now

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Everything but running pods within their cool-down."""
        return np.array([not self._cooling(other) for other in candidates], dtype=np.bool_)

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray | None:
        """Pods within their cool-down, whatever for; they are no spare pods of their job either."""
        return np.array([self._cooling(other) for other in candidates], dtype=np.bool_)

    def _cooling(self, task: Task) -> bool:
        if task.status is not TaskStatus.RUNNING:
            return False
        seconds = duration_or_none(task.labels.get(COOLDOWN_TIME, task.annotations.get(COOLDOWN_TIME)))
        return seconds is not None and task.since + seconds > self.now


# conformance: pods that the cluster cannot do without are never evicted. No arguments.

_CRITICAL = frozenset(("system-cluster-critical", "system-node-critical"))


class ConformancePlugin(Plugin):
    """Protects system-critical pods and those of namespace kube-system."""

    name = "conformance"
    protects = True
    by_shape = True
    known_arguments: tuple[Argument, ...] = ()

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Everything but critical pods."""
        if purpose is Purpose.SHUFFLE:
            return None
        return ~_critical(candidates)

    def protected(self, candidates: Sequence[Task], purpose: Purpose) -> BoolArray | None:
        """Critical pods, whatever for; they are no spare pods of their job either."""
        return _critical(candidates)


def _critical(tasks: Sequence[Task]) -> BoolArray:
    return np.array([t.priority_class_name in _CRITICAL or t.namespace == "kube-system" for t in tasks], dtype=np.bool_)
