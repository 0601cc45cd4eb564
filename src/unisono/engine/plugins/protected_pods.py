"""cdp, conformance and pdb: pods that are not evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import COOLDOWN_TIME
from unisono.api.selecting import selects
from unisono.api.times import duration_or_none
from unisono.cluster.limits import Budget
from unisono.cluster.records import Task
from unisono.cluster.status import COMPLETED_STATES, TaskStatus
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


# pdb: evictions respect PodDisruptionBudgets. No arguments.
#
# What a budget allows is spent over the whole cycle, on whatever node and for whomever its pods are evicted.


class PdbPlugin(Plugin):
    """Refuses victims whose budget is spent."""

    name = "pdb"
    protects = True
    known_arguments: tuple[Argument, ...] = ()

    def open(self, session: Session) -> None:
        """Nothing is spent yet."""
        self.session = session
        self.budgets = session.snapshot.budgets
        self._spent: Counter[str] = Counter()

    @cached_property
    def allowed(self) -> dict[str, int]:
        """Disruptions that each budget allows: what its controller says, else counted from the pods."""
        every = [budget for held in self.budgets.values() for budget in held.values()]
        unknown = [budget for budget in every if budget.allowed is None]
        counts = self._count({budget.namespace: [] for budget in unknown}, unknown)
        return {
            budget.key: budget.spare(*counts[budget.key]) if budget.allowed is None else budget.allowed
            for budget in every
        }

    def _count(self, pods: dict[str, list[Task]], budgets: list[Budget]) -> dict[str, tuple[int, int]]:
        """Pods expected and healthy, by budget."""
        for task in self.session.snapshot.tasks.values() if pods else ():
            if task.namespace in pods and task.status not in COMPLETED_STATES:
                pods[task.namespace].append(task)
        counts: dict[str, tuple[int, int]] = {}
        for budget in budgets:
            selected = [task for task in pods[budget.namespace] if selects(budget.selector, task.labels)]
            counts[budget.key] = len(selected), sum(task.status is TaskStatus.RUNNING for task in selected)
        return counts

    def _of(self, task: Task) -> list[str]:
        """Budgets that an eviction of the task would spend from."""
        return [
            budget.key
            for budget in self.budgets.get(task.namespace, {}).values()
            if task.name not in budget.disrupted and selects(budget.selector, task.labels)
        ]

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """In order, every candidate for which all its budgets still have something left."""
        return self._within(candidates) if self.budgets else None

    def retained(self, leaving: Sequence[Task]) -> BoolArray | None:
        """What a plug-in moves away spends from the same budgets."""
        return ~self._within(leaving) if self.budgets else None

    def _within(self, candidates: Sequence[Task]) -> BoolArray:
        spent = self._spent.copy()
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for index, other in enumerate(candidates):
            keys = self._of(other)
            if all(spent[key] < self.allowed[key] for key in keys):
                chosen[index] = True
                spent.update(keys)
        return chosen

    def moved(
        self, job: JobState, tasks: Sequence[Task], nodes: Sequence[int], before: TaskStatus, after: TaskStatus
    ) -> None:
        """Evictions spend, and give back when they are undone."""
        if not self.budgets or TaskStatus.RELEASING not in (before, after):
            return
        for task in tasks:
            for key in self._of(task):
                self._spent[key] += 1 if after is TaskStatus.RELEASING else -1
