"""What could be taken on each node for a task: of the tasks that a rule concerns and no plug-in protects as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import Vector, fitted
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.job_state import JobState
from unisono.engine.session.victims import VictimIndex


class Among(Enum):
    """Whose tasks may go."""

    QUEUE = "queue"
    """Other jobs of the same queue."""
    JOB = "job"
    """Other tasks of the same job."""
    OTHER_QUEUES = "other queues"
    """Running tasks of other queues that let themselves be reclaimed from."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What an action is after.

    Attributes:
        purpose: which switch guards the plug-ins' answers.
        among: whose tasks may go.
        scored: try nodes in order of their scores; else those first where least is missing.
        compared: how many nodes to compare by what their victims cost; 0 takes the first that works.

    """

    purpose: Purpose
    among: Among
    scored: bool
    compared: int = 0


@dataclass(slots=True)
class EvictableAmounts:
    """An upper bound of what can be freed.

    Attributes:
        key: what it depends on.
        mask: ``[T]`` the tasks, the actor's own included where its queue's are; evicted ones stay in.
        rows: per resource row ``[N]`` what those of them hold that are still there.

    """

    key: tuple[Any, ...]
    mask: BoolArray
    rows: dict[int, Vector]


class EvictableCache:
    """The evictable amounts that were asked for last, kept up to date through evictions and their undoing."""

    def __init__(self, index: VictimIndex, hooks: CombinedAnswers, rows: int) -> None:
        self.index = index
        self.hooks = hooks
        self._rows = rows
        self._last: EvictableAmounts | None = None
        self._free_to_go: dict[Purpose, BoolArray] = {}

    def of(self, actor: JobState, task: Task, rule: Rule) -> EvictableAmounts:
        """What could be taken for ``task``; the same object while the same tasks are concerned."""
        index = self.index
        bound = self.hooks.victim_jobs(actor, task, index.jobs, rule.purpose)
        own = actor.key if rule.among is Among.JOB else ""
        key = (rule.purpose, rule.among, actor.queue.name, own, task.best_effort, bound.tobytes())
        if self._last is None or self._last.key != key:
            mask = (bound & self._concerned(actor, rule))[index.job] & self.unprotected(rule.purpose)
            if rule.among is Among.OTHER_QUEUES:
                mask = mask & index.running
            if task.best_effort:
                mask = mask & index.best_effort
            self._last = EvictableAmounts(key, mask, {})
        return self._last

    def forget(self) -> None:
        """Sum up again when next asked: other actions have evicted or placed pods."""
        self._last = None

    def unprotected(self, purpose: Purpose) -> BoolArray:
        """``[T]`` tasks that no plug-in protects."""
        found = self._free_to_go.get(purpose)
        if found is None:
            if self.hooks.has("protected"):
                found = ~self.hooks.protected(self.index.tasks, purpose)
            else:
                found = np.ones(len(self.index), dtype=np.bool_)
            self._free_to_go[purpose] = found
        return found

    def _concerned(self, actor: JobState, rule: Rule) -> BoolArray:
        """``[J]`` jobs whose tasks the rule lets go."""
        jobs = self.index.jobs
        if rule.among is Among.JOB:
            return np.array([job is actor for job in jobs.states], dtype=np.bool_)
        other = rule.among is Among.OTHER_QUEUES
        queues = [(q is not actor.queue and q.record.reclaimable) if other else q is actor.queue for q in jobs.queues]
        return np.array(queues, dtype=np.bool_)[jobs.queue]

    def row(self, evictable: EvictableAmounts, row: int) -> Vector:
        """``[N]`` amounts of one resource."""
        amounts = evictable.rows.get(row)
        if amounts is None:
            amounts = evictable.rows[row] = self.index.sums(evictable.mask & self.index.alive, row)
        return amounts

    def note(self, victim: Task, column: int, *, alive: bool) -> None:
        """A task was evicted, or is back."""
        at = self.index.at(victim)
        self.index.alive[at] = alive
        if self._last is not None and self._last.mask[at]:
            vector = fitted(victim.pod_class.vector, self._rows)
            for row, amounts in self._last.rows.items():
                amounts[column] += vector[row] if alive else -vector[row]
