"""conformance: pods that the cluster cannot do without are never evicted. No arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.records import Task
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.config.arguments import Argument
from unisono.engine.contract.plugin import Plugin

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState

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
