"""What could be taken on each node for a task: of the tasks that a rule concerns and no plug-in protects as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.amounts import Amounts
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.session.protected_cores import Cores
from unisono.engine.session.session import Session
from unisono.engine.session.victims import VictimIndex

# Nodes that were tried in vain, so that the next equal task does not try them again.


class FailedNodes:
    """Nodes on which evictions make no room for the tasks of an actor, or of actors of one shape.

    They are kept by how many places the actor had been promised.

    The more an actor holds, and the more has been taken from others, the less it may take: a node that failed with
    fewer promises fails with more, until something changes on it. What failed amid evictions that are taken back later
    must be forgotten (`clear`).
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._key: tuple[Any, ...] = ()
        self._masks: dict[int, BoolArray] = {}
        self._seen = 0

    def clear(self) -> None:
        """Forget everything."""
        self._masks.clear()

    def of(self, key: tuple[Any, ...], promised: int, touched: list[int]) -> BoolArray:
        """``[N]`` nodes not to try; ``touched`` is the session's log of changed columns."""
        if key != self._key:
            self._key = key
            self._masks.clear()
        fresh = touched[self._seen :]
        self._seen = len(touched)
        dead = np.zeros(self._size, dtype=np.bool_)
        for number, mask in self._masks.items():
            mask[fresh] = False
            if number <= promised:
                dead |= mask
        return dead

    def add(self, promised: int, column: int) -> None:
        """A node failed, under the key asked for last."""
        mask = self._masks.get(promised)
        if mask is None:
            mask = self._masks[promised] = np.zeros(self._size, dtype=np.bool_)
        mask[column] = True


# What reclaim leaves to queues: no pod goes for a resource of which its queue holds no more than its share.
#
# Plug-ins ask whether a queue holds more than it deserves of anything. A queue with little of a device and much of the
# processors beside it would lose the devices that it deserves.


class KeptShares:
    """Pods that could go, one after the other; each one that may counts as gone for the next.

    Args:
        session: knows what queues deserve.
        missing: rows of what has to be freed; the number of pods is no share. Where nothing else is missing, as on
            nodes that take no more pods or whose room is in pieces, queues go beyond their share of something.

    """

    def __init__(self, session: Session, missing: Iterable[int]) -> None:
        self._session = session
        self._rows = [row for row in missing if row != PODS]
        self._over: dict[str, dict[int, int]] = {}

    def lets_go(self, tasks: Sequence[Task], job: JobState) -> bool:
        """Whether the queue of these tasks, which go together, holds more than its share of all that they free."""
        over = self._over.get(job.queue.name)
        if over is None:
            over = self._over[job.queue.name] = self._beyond(job.queue)
        if not over:
            return True
        vectors = [task.pod_class.vector for task in tasks]
        freed = {row: sum(vector.item(row) for vector in vectors if row < len(vector)) for row in over}
        within = [over[row] <= 0 for row, amount in freed.items() if amount]
        if within and (any(within) if self._rows else all(within)):
            return False
        for row, amount in freed.items():
            over[row] -= amount
        return True

    def _beyond(self, queue: QueueState) -> dict[int, int]:
        """What the queue holds beyond its share, by row; empty where nothing divides the cluster."""
        deserved = self._session.shared.of(_Deserved, lambda: _Deserved(self._session)).of(queue)
        rows = self._rows or [row for row in range(min(len(deserved), len(queue.claimed))) if row != PODS]
        return {row: queue.claimed.item(row) - deserved[row] for row in rows} if deserved else {}


class _Deserved:
    """What queues deserve, which does not change within a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, Amounts] = {}

    def of(self, queue: QueueState) -> Amounts:
        """By row; empty where no plug-in answers."""
        found = self._known.get(queue.name)
        if found is None:
            told = self._session.book.shares.metrics_of
            shares = told(queue) if told is not None else None
            found = self._known[queue.name] = [] if shares is None else list(shares.deserved)
        return found


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

    def __init__(self, index: VictimIndex, hooks: CombinedAnswers, rows: int, cores: Cores) -> None:
        self.index = index
        self.cores = cores
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
        """``[T]`` tasks that no plug-in protects, and that their jobs and queues let go."""
        found = self._free_to_go.get(purpose)
        if found is None:
            if self.hooks.has("protected"):
                found = ~self.hooks.protected(self.index.tasks, purpose)
            else:
                found = np.ones(len(self.index), dtype=np.bool_)
            kept = self.cores.kept(self.index.tasks)
            if kept is not None:
                found = found & ~kept
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
