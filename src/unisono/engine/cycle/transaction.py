"""Placements of a session, with an undo log.

Everything takes effect in the session at once and can be taken back to a checkpoint. What is committed leaves the
engine as decisions; what is neither committed nor rolled back (a gang that waits for resources being released) keeps
its resources for the rest of the session only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import CLAIMS, HOLDS, TaskStatus
from unisono.engine.candidates.table import Demand
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session


class Taker(Protocol):
    """Finds the best nodes for a run of equal tasks: a table of candidates, or one seen through a domain."""

    @property
    def demand(self) -> Demand:
        """What is placed."""
        ...

    @property
    def counts_domains(self) -> bool:
        """Whether `take` counts the pods in the session's domains."""
        ...

    def admits(self, column: int) -> bool:
        """Whether a node is a candidate now."""
        ...

    def take(self, wanted: int) -> list[int]:
        """Place up to ``wanted`` tasks; returns their nodes' columns."""
        ...


@dataclass(slots=True)
class Placement:
    """A run of equal tasks of one job, placed (``status`` ALLOCATED or PIPELINED) or evicted (RELEASING).

    Attributes:
        columns: node of each task.
        before: state of the tasks before.
        reason: name of the action, for evictions.
        kept: it is not bound in this session, because its gang waits for resources being released.
    """

    job: JobState
    pod_class: PodClass
    role: str
    tasks: list[Task]
    columns: list[int]
    before: TaskStatus
    status: TaskStatus
    reason: str = ""
    kept: bool = False


@dataclass(slots=True)
class Committed:
    """Binds and evictions of one commit."""

    binds: list[Placement]
    evictions: list[Placement]


class Transaction:
    """The open placements of a session."""

    def __init__(self, session: Session, hooks: CombinedAnswers) -> None:
        self.session = session
        self.hooks = hooks
        self.log: list[Placement] = []

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self.log)

    # ---- operations

    def place(self, job: JobState, tasks: Sequence[Task], table: Taker) -> list[int]:
        """Place a run of pending tasks of one class and role on the best nodes, as many as find room.

        Returns:
            the nodes' columns, for the first so many tasks.
        """
        counted = table.counts_domains
        columns = table.take(len(tasks))
        if columns:
            status = TaskStatus.PIPELINED if table.demand.future else TaskStatus.ALLOCATED
            self._record(job, list(tasks[: len(columns)]), columns, TaskStatus.PENDING, status, counted=counted)
        return columns

    def bind_whole(
        self, gangs: Sequence[tuple[JobState, list[Task]]], columns: Sequence[int]
    ) -> list[Placement] | None:
        """Bind whole gangs of equal pending tasks of one class, which a table has placed on ``columns`` already.

        The first gang gets the first columns, and so on. As `place` and `commit` of one gang after the other. When the
        first one does not become ready by that, nothing is done, the places are given back, and the answer is None.
        """
        first, sample = gangs[0][0], gangs[0][1][0]
        pod_class, role, size = sample.pod_class, sample.role, len(gangs[0][1])
        pending, binding = TaskStatus.PENDING, TaskStatus.BINDING
        bound: list[Placement] = []
        at = 0
        for job, tasks in gangs:
            job.move(pod_class, role, size, pending, binding)
            if job is first and not self.hooks.ready(job):
                job.move(pod_class, role, size, binding, pending)
                self.give_back(pod_class, columns)
                return None
            where = list(columns[at : at + size])
            at += size
            places = job.places
            for task, column in zip(tasks, where, strict=True):
                places[task.key] = (binding, column)
            bound.append(Placement(job, pod_class, role, tasks, where, pending, TaskStatus.ALLOCATED))
        amounts = pod_class.vector * np.int64(at)
        first.queue.claimed += amounts
        first.queue.allocated += amounts
        for limit in first.limits:
            limit.move(amounts, pending, binding)
        if pod_class.base is not pod_class:
            self.session.domains.move(pod_class, columns, 1)
        for _, method in self.hooks.flat["placed"]:
            for placement in bound:
                method(placement.job, pod_class, placement.columns)
        return bound

    def give_back(self, pod_class: PodClass, columns: Sequence[int]) -> None:
        """Free the places that a table has taken for tasks that do not get them."""
        change = self.session.change_of(pod_class, pipelined=False)
        for column in columns:
            self.session.matrix[:, column] -= change
        self.session.touched.extend(columns)

    def place_on(self, job: JobState, task: Task, column: int, *, pipelined: bool) -> None:
        """Place one pending task on a given node; the caller has checked that it fits."""
        self.session.matrix[:, column] += self.session.change_of(task.pod_class, pipelined=pipelined)
        self.session.touched.append(column)
        status = TaskStatus.PIPELINED if pipelined else TaskStatus.ALLOCATED
        self._record(job, [task], [column], TaskStatus.PENDING, status)

    def evict(self, job: JobState, task: Task, column: int, reason: str) -> None:
        """Release a running or bound task: its resources become free in the future. ``reason``: the action's name."""
        self.session.release(task.pod_class, column, 1)
        self.session.touched.append(column)
        self.session.releasing = True
        self._record(job, [task], [column], job.status(task), TaskStatus.RELEASING)
        self.log[-1].reason = reason

    def _record(
        self,
        job: JobState,
        tasks: list[Task],
        columns: list[int],
        before: TaskStatus,
        status: TaskStatus,
        *,
        counted: bool = False,
    ) -> None:
        first = tasks[0]
        placement = Placement(job, first.pod_class, first.role, tasks, columns, before, status)
        self.log.append(placement)
        self._take_effect(placement, before, status, counted=counted)

    def _take_effect(self, placement: Placement, old: TaskStatus, new: TaskStatus, *, counted: bool = False) -> None:
        """Move the tasks' state in job, queue and books; the matrix (and domains if ``counted``) has been changed."""
        job, pod_class, number = placement.job, placement.pod_class, len(placement.tasks)
        job.move(pod_class, placement.role, number, old, new)
        if self.hooks.flat["moved"]:
            self.hooks.each("moved", job, placement.tasks, placement.columns, old, new)
        for task, column in zip(placement.tasks, placement.columns, strict=True):
            job.places[task.key] = (new, column)
        held = HOLDS[new] - HOLDS[old]
        claimed = CLAIMS[new] - CLAIMS[old]
        if not claimed:
            return
        amounts = pod_class.vector * (number * claimed) if number != 1 or claimed < 0 else pod_class.vector
        job.queue.claimed += amounts
        if held:
            job.queue.allocated += amounts
        for limit in job.limits:
            limit.move(amounts, old, new)
        if pod_class.host_ports:
            self._hold_ports(placement, claimed)
        if pod_class.base is not pod_class and not counted:
            self._move_domains(placement, claimed, old, new)
        elif pod_class.base is not pod_class and new is TaskStatus.PIPELINED:
            self.session.domains.pledge(pod_class, placement.columns, 1)
        if new is TaskStatus.PIPELINED:
            self.session.pipelining = True
        hook = "placed" if claimed > 0 else "removed"
        if self.hooks.flat[hook]:
            self.hooks.each(hook, job, pod_class, placement.columns)

    def _move_domains(self, placement: Placement, number: int, old: TaskStatus, new: TaskStatus) -> None:
        """What is promised, or evicted by this session, is not there yet, or still there, for what starts now."""
        domains, pod_class, columns = self.session.domains, placement.pod_class, placement.columns
        domains.move(pod_class, columns, number)
        if TaskStatus.PIPELINED in (old, new):
            domains.pledge(pod_class, columns, number)
        elif TaskStatus.RELEASING in (old, new):
            domains.evict(pod_class, columns, -number)

    def _hold_ports(self, placement: Placement, claimed: int) -> None:
        for column in placement.columns:
            held = self.session.ports.setdefault(column, [])
            if claimed > 0:
                held.append(placement.pod_class)
            elif placement.pod_class in held:
                held.remove(placement.pod_class)

    # ---- taking back, letting go

    def rollback(self, to: int) -> list[Placement]:
        """Undo everything after the checkpoint ``to``, last first; returns what was undone, first first."""
        undone: list[Placement] = []
        while len(self.log) > to:
            placement = self.log.pop()
            self._give_back(placement)
            undone.append(placement)
        undone.reverse()
        return undone

    def keep(self, since: int) -> None:
        """Leave what was placed after the checkpoint ``since`` as it is: a gang waits for resources being released.

        Its pods are not there for others that start now, not even those that have a free place.
        """
        for placement in self.log[since:]:
            if placement.status is TaskStatus.ALLOCATED and not placement.kept:
                placement.kept = True
                if placement.pod_class.base is not placement.pod_class:
                    self.session.domains.pledge(placement.pod_class, placement.columns, 1)

    def _give_back(self, placement: Placement) -> None:
        session, pod_class = self.session, placement.pod_class
        if placement.kept and pod_class.base is not pod_class:
            session.domains.pledge(pod_class, placement.columns, -1)
        if placement.status is TaskStatus.RELEASING:
            for column in placement.columns:
                session.release(pod_class, column, -1)
        else:
            change = session.change_of(pod_class, pipelined=placement.status is TaskStatus.PIPELINED)
            for column in placement.columns:
                session.matrix[:, column] -= change
        session.touched.extend(placement.columns)
        self._take_effect(placement, placement.status, placement.before)
        for task in placement.tasks:
            del placement.job.places[task.key]

    def withdraw(self, placement: Placement) -> None:
        """Take back one promise, wherever it stands in the log, or one eviction that was committed."""
        if placement.status is not TaskStatus.RELEASING:
            self.log = [other for other in self.log if other is not placement]
        self._give_back(placement)

    def renew(self, placement: Placement) -> None:
        """Let what was withdrawn take effect again; a promise comes last in the log."""
        session, pod_class = self.session, placement.pod_class
        if placement.status is TaskStatus.RELEASING:
            for column in placement.columns:
                session.release(pod_class, column, 1)
        else:
            self.log.append(placement)
            change = session.change_of(pod_class, pipelined=True)
            for column in placement.columns:
                session.matrix[:, column] += change
        session.touched.extend(placement.columns)
        self._take_effect(placement, placement.before, placement.status)

    def commit(self, since: int) -> Committed:
        """Let everything after the checkpoint go: allocated tasks become binds, evictions stand, pipelined tasks wait.

        Pipelined tasks stay in the log, and placed, for the rest of the session.
        """
        binds: list[Placement] = []
        evictions: list[Placement] = []
        waiting: list[Placement] = []
        for placement in self.log[since:]:
            if placement.status is TaskStatus.ALLOCATED:
                job, columns = placement.job, placement.columns
                job.move(placement.pod_class, placement.role, len(columns), TaskStatus.ALLOCATED, TaskStatus.BINDING)
                for task, column in zip(placement.tasks, columns, strict=True):
                    job.places[task.key] = (TaskStatus.BINDING, column)
                binds.append(placement)
            elif placement.status is TaskStatus.RELEASING:
                evictions.append(placement)
            else:
                waiting.append(placement)
        self.log[since:] = waiting
        return Committed(binds, evictions)
