"""Finding a place for a task by evicting others: what preempt and reclaim have in common.

A vector pass over the nodes tells where the tasks that may go would make enough room; the plug-ins are asked about
those nodes only, best first. Everything happens in the transaction and can be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import PODS, fitted
from unisono.cluster.status import ALLOCATED_STATES, READY_STATES, TaskStatus, count
from unisono.engine.answers import BoolArray, FloatArray, Purpose
from unisono.engine.candidates.table import NOWHERE
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.transaction import Placement
from unisono.engine.eviction.evictable_amounts import (
    ActorRank,
    Among,
    EvictableAmounts,
    EvictableCache,
    FailedNodes,
    KeptShares,
    LossOrder,
    RoomTable,
    Rule,
    sum_of,
)
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import Amounts
from unisono.engine.session.protected_cores import Cores
from unisono.engine.session.victims import Index, Surplus, VictimIndex

Cost = tuple[float, ...]

_COMPARED = 16
"""Nodes compared by what work is lost there, or by the gangs that end there, where no action says how many."""

_SPARED = 16
"""Victims of one node that are tried to be spared one by one at most; each costs a trial with all the others."""


@dataclass(slots=True)
class _Found:
    """Points of all nodes, as found for the last task; ``scale`` is what its table added for static scores."""

    task: PodClass
    evictable: EvictableAmounts
    rule: Rule
    scale: FloatArray
    seen: int
    points: FloatArray


class Evictions:
    """All evictions of one cycle."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.session = cycle.session
        self.index = VictimIndex(cycle.session)
        self.pool = EvictableCache(self.index, cycle.hooks, cycle.session.rows, Cores(cycle.session))
        self._action = cycle.action
        self._dead = FailedNodes(cycle.session.nodes.size)
        self._failed: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._last: _Found | None = None
        self._rows_of: dict[int, Index] = {}
        self._full: dict[int, int] = {}
        self._rooms: dict[tuple[int, str], RoomTable] = {}
        self._limited = cycle.hooks.has("allowance")
        self._keeping = {purpose: cycle.hooks.keeps_gangs(purpose) for purpose in (Purpose.PREEMPT, Purpose.RECLAIM)}
        self.losses = LossOrder(cycle, self.index) if cycle.hooks.weighs_losses() else None

    def follow(self) -> None:
        """Take in what other actions have decided, before the first question of an action."""
        if self._action != self.cycle.action:
            self._action = self.cycle.action
            self.index.refresh()
            self.pool.forget()

    # ---- jobs of the same shape

    def known_to_fail(self, job: JobState, tasks: Iterable[Task], rule: Rule) -> bool:
        """A job of the same shape, better placed in the order, has got nothing since the last commit."""
        shape = self._shape(job, tasks, rule)
        return shape is not None and self._failed.get(shape) == self._commits()

    def note_failure(self, job: JobState, tasks: Sequence[Task], rule: Rule) -> None:
        """The job has got nothing, what it took was taken back; the next one of its shape will get nothing either."""
        self._dead.clear()
        shape = self._shape(job, tasks, rule)
        if shape is not None:
            self._failed[shape] = self._commits()

    def _shape(self, job: JobState, tasks: Iterable[Task], rule: Rule) -> tuple[Any, ...] | None:
        if not job.shape or job.places or any(task.never_preempts for task in tasks):
            return None
        hooks = self.cycle.hooks
        if not (hooks.by_shape("pipelined", "preemptive") and hooks.by_rank("job_key", "starving", "victims")):
            return None
        self.session.subject = job
        first = next(iter(tasks), None)  # all are equal
        return job.shape, rule, self.cycle.tables.alike(first.pod_class) if first is not None else ""

    def _commits(self) -> tuple[int, int]:
        return len(self.cycle.evicted), self.cycle.transaction.checkpoint()

    # ---- searching

    def take_free(self, job: JobState, task: Task) -> bool:
        """Promise ``task`` a place that is free, or will be once what is leaving is gone; False when there is none.

        The node that an earlier cycle chose for it comes first.
        """
        self.session.subject = job
        if not self._has_free(task) or self.is_limited(job, task.pod_class):
            return False
        table = self.cycle.tables.of(task.pod_class, future=True)
        column = self.session.snapshot.nodes.index.get(task.nominated_node, -1)
        if column >= 0 and table.admits(column):
            self.cycle.transaction.place_on(job, task, column, pipelined=True)
            return True
        return bool(self.cycle.transaction.place(job, [task], table))

    def _has_free(self, task: Task) -> bool:
        """Whether a node has what the task requests; where none had, only nodes that changed since are looked at."""
        touched, seen = self.session.touched, self._full.get(task.pod_class.id)
        if seen is None:
            fits = not self._lacking(task).all()
        else:
            fresh = set(touched[seen:])
            fits = any(max(self._missing(task, column), default=0) <= 0 for column in fresh)
        if fits:
            self._full.pop(task.pod_class.id, None)
        else:
            self._full[task.pod_class.id] = len(touched)
        return fits

    def make_room(self, rank: ActorRank, task: Task, rule: Rule) -> bool:
        """Evict what must go and promise the place to ``task``; False, and nothing changed, when no node can be had."""
        self.session.subject = rank.job
        if not self.session.nodes.size:
            return False
        evictable = self.pool.of(rank.job, task, rule)
        points = self._points(task, evictable, rule)
        actor = rank.job
        key = (actor.shape or actor.key, actor.priority, task.pod_class.id, task.best_effort, rule)
        points[self._dead.of(key, actor.waiting_count, self.session.touched)] = NOWHERE
        compared = rule.compared
        if self.losses is not None:
            compared = compared or _COMPARED
            points = self.losses.cheapest_first(points, self._lacking(task), evictable.mask)
        elif compared:
            points = _free_first(points, self._lacking(task))
        if self._used_up():
            points[self._lacking(task)] = NOWHERE
        if self.is_limited(actor, task.pod_class):  # free room alone is of no use
            points[self.pool.row(evictable, PODS) < 1] = NOWHERE
        tried: list[tuple[Cost, int]] = []
        while True:
            column = int(points.argmax())
            if points[column] == NOWHERE or len(tried) == (compared or _COMPARED) or self._settled(tried, column):
                break
            points[column] = NOWHERE
            mark = self.cycle.transaction.checkpoint()
            victims = self._take(rank, task, column, rule, evictable)
            if victims is None:
                self._dead.add(actor.waiting_count, column)
                continue
            if not victims or not (compared or self._end_gangs(victims, rule)):
                return True
            self.rollback(mark)
            tried.append((self._cost(victims), column))
        return bool(tried) and self._take(rank, task, min(tried)[1], rule, evictable) is not None

    def _settled(self, tried: Sequence[tuple[Cost, int]], following: int) -> bool:
        """No node from ``following`` on can cost less than the best one that was tried."""
        return bool(tried) and self.losses is not None and min(tried)[0][0] <= self.losses.bound(following)

    def _points(self, task: Task, evictable: EvictableAmounts, rule: Rule) -> FloatArray:
        """``[N]`` how good each node is, ``-inf`` where not even all that could go would make room; the caller's own.

        What was found for an equal task just before is brought up to date for the nodes that changed since.
        """
        table, touched = self._room(task), self.session.touched
        last = self._last
        same = last is not None and last.task is task.pod_class and last.evictable is evictable and last.rule == rule
        if last is None or not same or last.scale is not table.points or not table.by_row:
            every = self.session.columns
            last = self._last = _Found(task.pod_class, evictable, rule, table.points, 0, np.empty(len(every)))
            last.points[:] = self._points_of(task.pod_class, table, evictable, rule, every)
        elif last.seen < len(touched):
            fresh = np.array(sorted(set(touched[last.seen :])), dtype=np.intp)
            last.points[fresh] = self._points_of(task.pod_class, table, evictable, rule, fresh)
        last.seen = len(touched)
        return last.points.copy()

    def _points_of(
        self, pod_class: PodClass, table: RoomTable, evictable: EvictableAmounts, rule: Rule, columns: Index
    ) -> FloatArray:
        rows, amounts = pod_class.rows.tolist(), pod_class.amounts[:, None]
        state = self.session.matrix[:, columns][self._books(pod_class)]
        free = state[0] - state[1] + state[2] - state[3]
        taken = np.array([self.pool.row(evictable, row)[columns] for row in rows])
        total = table.total[columns]
        possible = (free + taken >= amounts).all(axis=0) & (total > NOWHERE)
        possible &= (self.pool.row(evictable, PODS)[columns] > 0) | (free >= amounts).all(axis=0)
        if rule.scored:
            return np.where(possible, total, NOWHERE)
        missing = (np.maximum(amounts - free, 0) / amounts).max(axis=0)
        return np.where(possible, -missing, NOWHERE)

    def _lacking(self, task: Task) -> BoolArray:
        """``[N]`` nodes on which something would have to go for the task."""
        amounts = task.pod_class.amounts[:, None]
        state = self.session.matrix[self._books(task.pod_class)]
        return np.asarray((state[0] - state[1] + state[2] - state[3] < amounts).any(axis=0), dtype=np.bool_)

    def _books(self, pod_class: PodClass) -> Index:
        """``[4, k]`` rows of the session's matrix: allocatable, used, releasing, pipelined of what a class requests."""
        matrix_rows = self._rows_of.get(pod_class.id)
        if matrix_rows is None:
            matrix_rows = self._rows_of[pod_class.id] = np.array(
                [pod_class.rows + at * self.session.rows for at in range(4)]
            )
        return matrix_rows

    def _room(self, task: Task) -> RoomTable:
        hooks = self.cycle.hooks
        key = (task.pod_class.id, self.cycle.tables.alike(task.pod_class))
        table = self._rooms.get(key)
        if table is None:
            static = self.cycle.tables.static.result(task.pod_class, self.session, hooks)
            table = self._rooms[key] = RoomTable(task.pod_class, self.session, hooks, static)
        table.follow()
        return table

    # ---- limits of queues

    def is_limited(self, actor: JobState, pod_class: PodClass) -> bool:
        """Whether some limit lets the job have no task of the class, even once those that leave are gone."""
        return self.cycle.hooks.headroom(actor, pod_class, 1) < 1

    def nodes_for(self, task: Task, rule: Rule, evictable: EvictableAmounts) -> list[int]:
        """Nodes on which all that could go would make room, best first."""
        points = self._points(task, evictable, rule)
        order = np.argsort(-points, kind="stable")
        return [int(column) for column in order[: int((points > NOWHERE).sum())]]

    def make_node_fit(self, rank: ActorRank, task: Task, column: int, rule: Rule, evictable: EvictableAmounts) -> bool:
        """Evict on the node until it has room for the task, whatever limits of queues say; they stay evicted."""
        if self._fits_node(task, column):
            return True
        for victim in self._victims(rank.job, task, column, rule, evictable):
            if self.evict_for_good(rank, victim, rule) and self._fits_node(task, column):
                return True
        return False

    def place_after(self, rank: ActorRank, task: Task, column: int, rule: Rule, gone: list[Task]) -> bool:
        """Evict those of ``gone`` that are needed, on any node, and promise the place; else nothing changes."""
        mark = self.cycle.transaction.checkpoint()
        gone = self._in_the_way(rank.job, task, column, rule, gone)
        if not gone or not self._fits_without(rank.job, task, column, rule, gone):
            return False
        return self._promise(rank, task, column, rule, gone, mark)

    # ---- one node

    def _take(
        self, rank: ActorRank, task: Task, column: int, rule: Rule, evictable: EvictableAmounts
    ) -> list[Task] | None:
        """Evict on the node until the task fits, and promise it the place.

        Returns:
            the victims; None, and nothing changed, when the node cannot be had.
        """
        transaction = self.cycle.transaction
        mark = transaction.checkpoint()
        if not self.fits(rank.job, task, column):
            victims = self._victims(rank.job, task, column, rule, evictable)
            if not victims or not self._evict_until(rank, task, column, rule, victims):
                return None
        gone = [placement.tasks[0] for placement in transaction.log[mark:]]
        return gone if self._promise(rank, task, column, rule, gone, mark) else None

    def _promise(self, rank: ActorRank, task: Task, column: int, rule: Rule, gone: Sequence[Task], mark: int) -> bool:
        """Promise the place to the task; undo all since ``mark`` where those that went for it could take it back."""
        self.cycle.transaction.place_on(rank.job, task, column, pipelined=True)
        if rule.among is Among.OTHER_QUEUES and not all(
            rank.holds_against(self.cycle, task, victim, self.job_of(victim)) for victim in gone
        ):
            self.rollback(mark)
            return False
        return True

    def job_of(self, victim: Task) -> JobState:
        """The job of a task that could be evicted."""
        return self.index.jobs.states[int(self.index.job[self.index.at(victim)])]

    def fits(self, actor: JobState, task: Task, column: int) -> bool:
        """The task could start on the node once what is being released there is gone."""
        return self._fits_node(task, column) and not self.is_limited(actor, task.pod_class)

    def _fits_node(self, task: Task, column: int) -> bool:
        if max(self._missing(task, column), default=0) > 0:
            return False
        table = self.cycle.tables.of(task.pod_class, future=True)
        table.follow()
        return bool(table.total[column] > NOWHERE)

    def _victims(self, actor: JobState, task: Task, column: int, rule: Rule, evictable: EvictableAmounts) -> list[Task]:
        """Tasks on the node that the plug-ins give up, first to go first; empty when they would not make room.

        Plug-ins that allow so many tasks of a job or queue are asked in the order in which tasks go. A gang that goes
        whole is there once.
        """
        own = rule.among is Among.JOB
        index, states = self.index, self.index.jobs.states
        positions = [at for at in index.on(column) if evictable.mask[at] and index.alive[at]]
        pairs = [(index.tasks[at], states[int(index.job[at])]) for at in positions]
        pairs = [pair for pair in pairs if (pair[1] is actor) is own and self.may_lose(pair[1], actor)]
        if own:  # equal ones would take the place from each other for ever
            pairs = [pair for pair in pairs if pair[0].priority < task.priority]
        candidates = self.cycle.orders.victims(actor, pairs)
        if not candidates:
            return []
        chosen = self.cycle.hooks.victims(actor, task, candidates, rule.purpose)
        victims = [other for other, yes in zip(candidates, chosen.tolist(), strict=True) if yes]
        jobs = {other.key: job for other, job in pairs}
        units = self.units(actor, task, rule, evictable, [(other, jobs[other.key]) for other in victims])
        missing = self._missing(task, column)
        if rule.among is Among.OTHER_QUEUES:
            rows = [row for row, amount in zip(task.pod_class.rows.tolist(), missing, strict=True) if amount > 0]
            kept = KeptShares(self.session, rows)
            units = [unit for unit in units if kept.lets_go(unit, self.job_of(unit[0]))]
        here = [unit[0] for unit in units]
        if max(map(len, units), default=0) > 1:  # of gangs that go whole what is on this node
            every = {other.key: other for unit in units for other in unit}.values()
            here = [other for other in every if index.column[index.at(other)] == column]
        enough = (sum_of(self.session, here)[task.pod_class.rows] >= missing).all()
        return [unit[0] for unit in units] if enough else []

    # ---- gangs of victims

    def units(
        self,
        actor: JobState,
        task: Task,
        rule: Rule,
        evictable: EvictableAmounts,
        victims: Sequence[tuple[Task, JobState]],
    ) -> list[list[Task]]:
        """Victims by what goes together: what gangs can spare, one by one, and then gangs that have to go whole.

        A tier without the gang plug-in gives up pods that their gang needs. What would go on below its minimum holds
        room and does nothing; a gang of which some pod may not go stays as it is. A whole gang begins with the first
        of its victims.
        """
        if not self._keeps_gangs(rule):
            return [[victim] for victim, _ in victims]
        spare: dict[str, Surplus] = {}
        single: list[list[Task]] = []
        whole: dict[str, list[Task]] = {}
        for victim, job in victims:
            if not job.min_member and not job.min_task_member and not job.record.sub_groups:
                single.append([victim])
                continue
            if job.key not in spare:
                spare[job.key] = Surplus(self.session, job)
            if spare[job.key].take(victim):
                single.append([victim])
            elif count(job.counts, ALLOCATED_STATES) == 1:  # it is the whole gang
                whole[job.key] = [victim]
            elif job.key not in whole:
                rest = [other for other in self.tasks_of(job) if other is not victim]
                whole[job.key] = [victim, *rest] if self._may_end(actor, task, rule, evictable, job) else []
        return single + [unit for unit in whole.values() if unit]

    def _may_end(self, actor: JobState, task: Task, rule: Rule, evictable: EvictableAmounts, job: JobState) -> bool:
        """Whether all that a gang holds may go."""
        members = self.index.of_job(self.index.jobs.number[job.key])
        members = members[self.index.alive[members]]
        if len(members) < count(job.counts, ALLOCATED_STATES) or not evictable.mask[members].all():
            return False
        pairs = [(self.index.tasks[at], job) for at in members.tolist()]
        return bool(self.cycle.hooks.victims(actor, task, self.cycle.orders.victims(actor, pairs), rule.purpose).all())

    def _together(self, victim: Task, rule: Rule) -> list[Task]:
        """What goes with a task, itself included: its whole gang where that would go on below its minimum."""
        if not self._keeps_gangs(rule):
            return [victim]
        job = self.job_of(victim)
        if job.ready_count > job.min_member and not job.record.sub_groups and not job.min_task_member:
            return [victim]
        return [victim] if Surplus(self.session, job).take(victim) else self.tasks_of(job)

    def _end_gangs(self, gone: Sequence[Task], rule: Rule) -> bool:
        """Whether a gang that could run goes whole with these; other nodes may have pods that gangs can spare."""
        jobs = {victim.job: self.job_of(victim) for victim in gone}.values() if self._keeps_gangs(rule) else ()
        broken = [job for job in jobs if job.ready_count < job.min_member <= count(job.record.counts, READY_STATES)]
        return any(job.min_member > 1 for job in broken)

    def _keeps_gangs(self, rule: Rule) -> bool:
        return rule.among is not Among.JOB and self._keeping[rule.purpose]

    def _missing(self, task: Task, column: int) -> Amounts:
        """What the node lacks of each resource that the task requests, once all that is being released is gone."""
        size, node = self.session.rows, self.session.matrix[:, column].tolist()
        demand = zip(task.pod_class.rows.tolist(), task.pod_class.amounts.tolist(), strict=True)
        return [
            amount - node[row] + node[size + row] - node[2 * size + row] + node[3 * size + row]
            for row, amount in demand
        ]

    def _evict_until(self, rank: ActorRank, task: Task, column: int, rule: Rule, victims: list[Task]) -> bool:
        """Evict in order until the task fits, then spare those without whom it fits as well."""
        mark = self.cycle.transaction.checkpoint()
        missing = self._missing(task, column)
        gone: list[Task] = []
        for victim in victims:
            if not self.evict_for_good(rank, victim, rule):
                continue
            gone.append(victim)
            if self.fits(rank.job, task, column):
                break
        else:
            self.rollback(mark)
            return False
        needed = self._needed(gone, missing, task)
        if len(needed) == len(gone):
            return True
        self.rollback(mark)
        if self._fits_without(rank.job, task, column, rule, needed):
            return True
        if len(gone) <= _SPARED:
            gone = self._in_the_way(rank.job, task, column, rule, gone)
        return self._fits_without(rank.job, task, column, rule, gone)

    def _in_the_way(self, actor: JobState, task: Task, column: int, rule: Rule, gone: list[Task]) -> list[Task]:
        """Without those, last to go first, who neither hold what is needed nor break a rule of the task."""
        mark = self.cycle.transaction.checkpoint()
        kept = gone
        for victim in reversed(gone):
            rest = [other for other in kept if other is not victim]
            if self._fits_without(actor, task, column, rule, rest):
                kept = rest
                self.rollback(mark)
        return kept

    def _fits_without(self, actor: JobState, task: Task, column: int, rule: Rule, gone: Sequence[Task]) -> bool:
        """Evict these, unless the task does not fit then either."""
        mark = self.cycle.transaction.checkpoint()
        self.evict_all(gone, rule)
        if self.fits(actor, task, column):
            return True
        self.rollback(mark)
        return False

    def evict_for_good(self, rank: ActorRank, victim: Task, rule: Rule) -> bool:
        """Evict a task, and its gang where it has to go whole.

        Not where the job would be served before the one that wants the place, or no more may go.
        """
        if not self.index.alive[self.index.at(victim)]:
            return False
        mark = self.cycle.transaction.checkpoint()
        for each in self._together(victim, rule):
            if not self.allowed(each):
                self.rollback(mark)
                return False
            self.evict(each, int(self.index.column[self.index.at(each)]), rule.purpose.value)
        if rule.among is Among.OTHER_QUEUES or rank.served_before(self.cycle, self.job_of(victim)):
            return True
        self.rollback(mark)
        return False

    def _needed(self, gone: list[Task], missing: Amounts, task: Task) -> list[Task]:
        """Without those, last to go first, whose resources are not needed."""
        if len(gone) == 1:
            return gone
        rows = task.pod_class.rows
        kept = list(gone)
        held = sum_of(self.session, gone)[rows]
        for victim in reversed(gone):
            rest = held - fitted(victim.pod_class.vector, self.session.rows)[rows]
            if len(kept) > 1 and (rest >= missing).all():
                kept.remove(victim)
                held = rest
        return kept

    # ---- limits, and what is lost

    @staticmethod
    def may_lose(job: JobState, actor: JobState | None) -> bool:
        """Nobody gets places and loses pods in one cycle; a job may take from itself unless its pods are bound."""
        if job is actor:
            return job.counts[TaskStatus.BINDING] <= job.record.counts[TaskStatus.BINDING]
        return not (job.places and job.gained)

    def allowed(self, victim: Task) -> bool:
        """One more task of its queue may be evicted in this session."""
        return not self._limited or self.cycle.hooks.allowance(self.job_of(victim).queue) > 0

    def _used_up(self) -> bool:
        """No more pods may be evicted at all."""
        return self._limited and all(self.cycle.hooks.allowance(queue) < 1 for queue in self.index.jobs.queues)

    def tasks_of(self, job: JobState) -> list[Task]:
        """Those of a job that could be evicted and have not been."""
        index, number = self.index, self.index.jobs.number.get(job.key)
        return [] if number is None else [index.tasks[at] for at in index.of_job(number).tolist() if index.alive[at]]

    def _cost(self, victims: Sequence[Task]) -> Cost:
        """What kube-scheduler compares: highest priority, sum of priorities, number, and the start of the best victims.

        The node whose most important victims started last loses least; pods are taken to start when they are created.
        What work is lost, where a plug-in knows, comes before all that. The pods are not evicted yet.
        """
        highest = max(victim.priority for victim in victims)
        total = sum(victim.priority + 2**31 for victim in victims)
        started = min(victim.created for victim in victims if victim.priority == highest)
        if self.losses is None:
            return highest, total, len(victims), -started
        rank = max(self.job_of(victim).priority for victim in victims)
        return self.losses.cost(rank, victims), highest, total, len(victims), -started

    # ---- the transaction

    def evict(self, victim: Task, column: int, reason: str) -> None:
        """Evict one task; undone by `rollback`."""
        self.cycle.transaction.evict(self.job_of(victim), victim, column, reason)
        self.pool.note(victim, column, alive=False)
        if self.losses is not None:
            self.losses.note(victim)

    def evict_all(self, victims: Sequence[Task], rule: Rule) -> None:
        """Evict tasks where they are, and gangs that have to go whole; undone by `rollback`."""
        for victim in victims:
            if self.index.alive[self.index.at(victim)]:
                for each in self._together(victim, rule):
                    self.evict(each, int(self.index.column[self.index.at(each)]), rule.purpose.value)

    def rollback(self, mark: int) -> list[Placement]:
        """Take everything back to a checkpoint of the transaction."""
        undone = self.cycle.transaction.rollback(mark)
        for placement in undone:
            if placement.status is TaskStatus.RELEASING:
                self.note(placement, alive=True)
        return undone

    def note(self, placement: Placement, *, alive: bool) -> None:
        """Pods were evicted, or are back."""
        for victim, column in zip(placement.tasks, placement.columns, strict=True):
            self.pool.note(victim, column, alive=alive)
            if self.losses is not None:
                self.losses.note(victim)


def _free_first(points: FloatArray, lacking: BoolArray) -> FloatArray:
    """``[N]`` points that put nodes where no pod has to go before others, and keep the order among each of the two."""
    possible = points > NOWHERE
    if not possible.any():
        return points
    return points + np.where(lacking, 0.0, float(np.ptp(points[possible])) + 1.0)


def evictions_of(cycle: Cycle) -> Evictions:
    """The evictions of a cycle; the index of running pods is made when it is first asked for, and follows."""
    evictions = cycle.session.shared.of(Evictions, lambda: Evictions(cycle))
    evictions.follow()
    return evictions
