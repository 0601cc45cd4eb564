"""Finding a place for a task by evicting others: what preempt and reclaim have in common.

A vector pass over the nodes tells where the tasks that may go would make enough room; the plug-ins are asked about
those nodes only, best first. Everything happens in the transaction and can be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, FloatArray, Purpose
from unisono.engine.cycle import Cycle
from unisono.engine.job_state import JobState
from unisono.engine.room import NOWHERE, RoomTable
from unisono.engine.transaction import Placement
from unisono.engine.victims import VictimIndex


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
        within_quota: the actor's queue must allow the task once the victims are gone.
        scored: try nodes in order of their scores; else those first where least is missing.

    """

    purpose: Purpose
    among: Among
    within_quota: bool
    scored: bool


@dataclass(slots=True)
class Freeable:
    """What could be taken on each node: of the tasks of ``mask``, per resource row ``[N]``."""

    key: tuple[Any, ...]
    mask: BoolArray
    rows: dict[int, Vector]


class Evictions:
    """All evictions of one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.session = cycle.session
        self.index = VictimIndex(cycle.session)
        self._freeable: Freeable | None = None
        self._rooms: dict[tuple[int, str], RoomTable] = {}

    # ---- searching

    def make_room(self, actor: JobState, task: Task, rule: Rule) -> bool:
        """Evict what must go and promise the place to ``task``; False, and nothing changed, when no node can be had."""
        self.session.subject = actor
        if not self.session.nodes.size:
            return False
        freeable = self._freeable_of(actor, task, rule)
        points = self._points(task, freeable, rule)
        while True:
            column = int(points.argmax())
            if points[column] == NOWHERE:
                return False
            if self._try(actor, task, column, rule, freeable):
                return True
            points[column] = NOWHERE

    def _points(self, task: Task, freeable: Freeable, rule: Rule) -> FloatArray:
        """``[N]`` how good each node is, ``-inf`` where not even all that could go would make room."""
        pod_class, nodes = task.pod_class, self.session.nodes
        rows, amounts = pod_class.rows, pod_class.amounts[:, None]
        free = nodes.allocatable[rows] - nodes.used[rows] + nodes.releasing[rows] - nodes.pipelined[rows]
        taken = np.array([self._row(freeable, row) for row in rows.tolist()])
        table = self._room(task)
        possible = (free + taken >= amounts).all(axis=0) & (table.total > NOWHERE)
        possible &= (self._row(freeable, PODS) > 0) | (free >= amounts).all(axis=0)
        if rule.scored:
            return np.where(possible, table.total, NOWHERE)
        missing = (np.maximum(amounts - free, 0) / amounts).max(axis=0)
        return np.where(possible, -missing, NOWHERE)

    def _room(self, task: Task) -> RoomTable:
        subject = self.session.subject
        wide = any(p.scope for hook in ("filter", "score", "static_filter") for p, _ in self.cycle.hooks.flat[hook])
        key = (task.pod_class.id, subject.key if wide and subject is not None else "")
        table = self._rooms.get(key)
        if table is None or table.generation != self.cycle.hooks.generation:
            static = self.cycle.tables.static.result(task.pod_class, self.session, self.cycle.hooks)
            table = self._rooms[key] = RoomTable(task.pod_class, self.session, self.cycle.hooks, static)
        table.follow()
        return table

    # ---- one node

    def _try(self, actor: JobState, task: Task, column: int, rule: Rule, freeable: Freeable) -> bool:
        if not self._fits(actor, task, column, rule):
            victims = self._victims(actor, task, column, rule, freeable)
            if not victims or not self._evict_until(actor, task, column, rule, victims):
                return False
        self.cycle.transaction.place_on(actor, task, column, pipelined=True)
        return True

    def _fits(self, actor: JobState, task: Task, column: int, rule: Rule) -> bool:
        """The task could start on the node once what is being released there is gone."""
        hooks = self.cycle.hooks
        if rule.within_quota and hooks.headroom(actor.queue, task.pod_class, 1) < 1:
            return False
        table = self.cycle.tables.of(task.pod_class, future=True)
        table.follow()
        return bool(table.total[column] > NOWHERE)

    def _victims(self, actor: JobState, task: Task, column: int, rule: Rule, freeable: Freeable) -> list[Task]:
        """Tasks on the node that the plug-ins give up, first to go first; empty when they would not make room.

        Plug-ins that allow so many tasks of a job or queue are asked in the order in which tasks go.
        """
        own = rule.among is Among.JOB
        index, states = self.index, self.index.jobs.states
        found = [at for at in index.on(column) if freeable.mask[at] and index.alive[at]]
        pairs = [(index.tasks[at], states[index.job[at]]) for at in found]
        candidates = self.cycle.orders.victims(actor, [pair for pair in pairs if (pair[1] is actor) is own])
        if not candidates:
            return []
        chosen = self.cycle.hooks.victims(actor, task, candidates, rule.purpose)
        victims = [other for other, yes in zip(candidates, chosen.tolist(), strict=True) if yes]
        enough = (self._held(victims)[task.pod_class.rows] >= self._missing(task, column)).all()
        return victims if enough else []

    def _missing(self, task: Task, column: int) -> Vector:
        rows, nodes = task.pod_class.rows, self.session.nodes
        free = nodes.allocatable[rows, column] - nodes.used[rows, column]
        return np.asarray(task.pod_class.amounts - free - nodes.releasing[rows, column] + nodes.pipelined[rows, column])

    def _held(self, tasks: Sequence[Task]) -> Vector:
        held = np.zeros(self.session.rows, dtype=np.int64)
        for task in tasks:
            held += fitted(task.pod_class.vector, len(held))
        return held

    def _evict_until(self, actor: JobState, task: Task, column: int, rule: Rule, victims: list[Task]) -> bool:
        """Evict in order until the task fits, then spare those without whom it fits as well."""
        mark = self.cycle.transaction.checkpoint()
        missing = self._missing(task, column)
        gone: list[Task] = []
        for victim in victims:
            self.evict(victim, column, rule.purpose.value)
            gone.append(victim)
            if self._fits(actor, task, column, rule):
                break
        else:
            self.rollback(mark)
            return False
        needed = self._needed(gone, missing, task)
        if len(needed) == len(gone):
            return True
        self.rollback(mark)
        for chosen in (needed, gone):
            for victim in chosen:
                self.evict(victim, column, rule.purpose.value)
            if self._fits(actor, task, column, rule):
                return True
            self.rollback(mark)
        return False

    def _needed(self, gone: list[Task], missing: Vector, task: Task) -> list[Task]:
        """Without those, last to go first, whose resources are not needed."""
        rows = task.pod_class.rows
        kept = list(gone)
        held = self._held(gone)[rows]
        for victim in reversed(gone):
            rest = held - fitted(victim.pod_class.vector, self.session.rows)[rows]
            if len(kept) > 1 and (rest >= missing).all():
                kept.remove(victim)
                held = rest
        return kept

    # ---- the transaction

    def evict(self, victim: Task, column: int, reason: str) -> None:
        """Evict one task; undone by `rollback`."""
        job = self.session.job(victim.job)
        assert job is not None
        self.cycle.transaction.evict(job, victim, column, reason)
        self._note(victim, column, alive=False)

    def rollback(self, mark: int) -> list[Placement]:
        """Take everything back to a checkpoint of the transaction."""
        undone = self.cycle.transaction.rollback(mark)
        for placement in undone:
            if placement.status is TaskStatus.RELEASING:
                for victim, column in zip(placement.tasks, placement.columns, strict=True):
                    self._note(victim, column, alive=True)
        return undone

    def _note(self, victim: Task, column: int, *, alive: bool) -> None:
        at = self.index.at(victim)
        self.index.alive[at] = alive
        freeable = self._freeable
        if freeable is not None and freeable.mask[at]:
            vector = fitted(victim.pod_class.vector, self.session.rows)
            for row, amounts in freeable.rows.items():
                amounts[column] += vector[row] if alive else -vector[row]

    # ---- who may go

    def _freeable_of(self, actor: JobState, task: Task, rule: Rule) -> Freeable:
        """Tasks that the rule concerns, the actor's own included with its queue; kept while nothing else is asked."""
        index, jobs = self.index, self.index.jobs
        bound = self.cycle.hooks.victim_jobs(actor, task, jobs, rule.purpose)
        own = actor.key if rule.among is Among.JOB else ""
        key = (rule.among, actor.queue.name, own, task.best_effort, bound.tobytes())
        if self._freeable is None or self._freeable.key != key:
            allowed = bound & self._concerned(actor, rule)
            mask = allowed[index.job]
            if rule.among is Among.OTHER_QUEUES:
                mask = mask & index.running
            if task.best_effort:
                mask = mask & index.best_effort
            self._freeable = Freeable(key, mask, {})
        return self._freeable

    def _concerned(self, actor: JobState, rule: Rule) -> BoolArray:
        jobs = self.index.jobs
        if rule.among is Among.JOB:
            return np.array([job is actor for job in jobs.states], dtype=np.bool_)
        other = rule.among is Among.OTHER_QUEUES
        queues = [(q is not actor.queue and q.record.reclaimable) if other else q is actor.queue for q in jobs.queues]
        return np.array(queues, dtype=np.bool_)[jobs.queue]

    def _row(self, freeable: Freeable, row: int) -> Vector:
        amounts = freeable.rows.get(row)
        if amounts is None:
            amounts = freeable.rows[row] = self.index.sums(freeable.mask & self.index.alive, row)
        return amounts


_EVICTIONS: WeakKeyDictionary[Cycle, Evictions] = WeakKeyDictionary()


def evictions_of(cycle: Cycle) -> Evictions:
    """The evictions of a cycle; the index of running pods is made when it is first asked for."""
    found = _EVICTIONS.get(cycle)
    if found is None:
        found = _EVICTIONS[cycle] = Evictions(cycle)
    return found
