"""Finding the domain of a job, and within it those of its sub-groups: trials in the transaction, undone or kept."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Refusal, Vote
from unisono.engine.cycle.context import Cycle
from unisono.engine.placement.domain_search import Search, search_of
from unisono.engine.placement.plain_jobs import Worksheet, refuse, worth_going_on
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import SubGroup, groups_of

Mark = tuple[int, list[tuple[SubGroup, tuple[int, dict[int, int]]]]]
"""A checkpoint of the transaction, and where every group of the job was."""

TRIALS = 32
"""Domains of one gradient that are tried at most for a job with several sub-groups, best first."""


class GroupSheet:
    """Pending tasks of one job, by sub-group."""

    __slots__ = ("sheets",)

    def __init__(self, sheets: dict[str, Worksheet]) -> None:
        self.sheets = sheets

    def __bool__(self) -> bool:
        return any(self.sheets.values())

    def copy(self) -> GroupSheet:
        """Another sheet with the same tasks left."""
        return GroupSheet({key: sheet.copy() for key, sheet in self.sheets.items()})

    def tasks(self, key: str) -> list[Task]:
        """What is left of one sub-group."""
        return self.sheets[key].left()

    @classmethod
    def of(cls, cycle: Cycle, job: JobState, tasks: Sequence[Task]) -> GroupSheet:
        """``tasks``, which are in task order, by sub-group."""
        owner = {task.key: group.key for group in groups_of(cycle.session, job) for task in group.tasks}
        own: dict[str, list[Task]] = {}
        for task in tasks:
            own.setdefault(owner[task.key], []).append(task)
        return cls({key: Worksheet(members) for key, members in own.items()})


class Solver:
    """Places one job; every trial starts from the sheet as it was given.

    Attributes:
        promise: places are only promised, on resources that are or will be free: room is being made by evictions.
        whole: only domains that hold all that is left are tried.
        stuck: the first task that found no node in the last trial, and the domain.

    """

    def __init__(self, cycle: Cycle, job: JobState, sheet: GroupSheet, *, promise: bool = False) -> None:
        self.cycle = cycle
        self.job = job
        self.search: Search = search_of(cycle)
        self.hooks = cycle.hooks
        self.given = sheet
        self.all_groups = groups_of(cycle.session, job)
        self.groups = {group.key: group for group in self.all_groups if group.key in sheet.sheets}
        self.many = bool(job.record.sub_groups)
        self.promise = promise
        self.whole = False
        self.settled = False
        self.stuck: tuple[Task, int] | None = None

    # ---- the whole job

    def solve(self, *, top: int | None = None) -> GroupSheet | None:
        """Place the job in the best domain of the first gradient in which it can be placed.

        A job that may not leave its domain and wants more pods than it needs first looks for one that holds them all.

        Returns:
            the sheet with what is left, the placements standing in the transaction; None, and nothing changed, when no
            domain works.

        """
        root = self.search.tree.root if top is None else top
        gradients = list(self._gradients(root))
        for whole in (True, False) if self._may_grow() else (False,):
            self.whole = whole
            for gradient in gradients:
                left = self._solve_gradient(gradient)
                if left is not None:
                    return left
        return None

    def _may_grow(self) -> bool:
        """The job must stay in its domain, and has surplus pods that would be kept out of one that is too small."""
        wish = self.job.record.topology
        if self.many or self.promise or wish is None or not wish.hard:
            return False
        tasks = [task for key in self.groups for task in self.given.tasks(key)]
        return len(tasks) > max(self.hooks.missing(self.job), 1) and not any(task.nominated_node for task in tasks)

    def solve_in(self, domain: int) -> bool:
        """Place the job in one domain; the caller undoes what stands when it does not work."""
        return bool(self._large_enough([domain])) and self._try(domain)[0] is not None

    def _gradients(self, root: int) -> Iterator[Sequence[int]]:
        yield from self.search.gradients(self.job, None, root)

    def _solve_gradient(self, gradient: Sequence[int]) -> GroupSheet | None:
        domains = self._large_enough(gradient)
        if len(self.groups) == 1:
            group = next(iter(self.groups.values()))
            ordered = [at for at, _ in self.search.ranked(group, domains)]
        else:
            ordered = domains[:TRIALS]
        best: tuple[tuple[bool, float], int] | None = None
        for domain in ordered:
            mark = self.mark()
            left, points = self._try(domain)
            if left is not None and (len(self.groups) == 1 and self.hooks.ready(self.job)):
                return left
            if left is not None and not self.whole:
                value = (self.hooks.ready(self.job), points)
                if best is None or value > best[0]:
                    best = value, domain
            self.undo(mark)
        return None if best is None else self._try(best[1])[0]

    def _large_enough(self, domains: Sequence[int]) -> list[int]:
        """Domains that may hold what the job still needs."""
        tasks = [task for key in self.groups for task in self.given.tasks(key)]
        least = self._least(tasks, self.hooks.missing(self.job))
        held = self.search.rooms.held(tasks, domains).tolist()
        return [at for at, number in zip(domains, held, strict=True) if number >= least]

    def _least(self, tasks: Sequence[Task], missing: int) -> int:
        """How many of the tasks a domain must hold to be tried."""
        return len(tasks) if self.whole else max(missing, 1)

    def _try(self, domain: int) -> tuple[GroupSheet | None, float]:
        """Place sub-groups in one domain until the job is ready; None when it becomes neither ready nor pipelined.

        Where resources are being released, sub-groups that can start now come first: one that waits must not keep the
        others waiting.
        """
        if self.many and self.cycle.session.releasing and not self.promise:
            self.settled, mark = True, self.mark()
            left, points = self._try_once(domain)
            self.settled = False
            if left is not None and self.hooks.ready(self.job):
                return left, points
            self.undo(mark)
        return self._try_once(domain)

    def _try_once(self, domain: int) -> tuple[GroupSheet | None, float]:
        sheet, points, start = self.given.copy(), 0.0, self.cycle.transaction.checkpoint()
        needed = self.search.needed(self.job) if self.many else set()
        heap: list[tuple[tuple[Any, ...], SubGroup]] = []
        for key, group in self.groups.items():
            if sheet.sheets[key]:
                heapq.heappush(heap, (self.search.job_key(group, key in needed), group))
        while heap:
            group = heapq.heappop(heap)[1]
            found = self._place_group(group, domain, sheet)
            if found is None:
                continue
            points += found
            if sheet.sheets[group.key]:
                heapq.heappush(heap, (self.search.job_key(group, group.key in needed), group))
            if self.hooks.ready(self.job):
                break
        if self.cycle.transaction.checkpoint() == start:
            return None, 0.0
        if self.hooks.ready(self.job) or self.hooks.vote("pipelined", self.job) is None:
            return sheet, points
        return None, 0.0

    # ---- one sub-group

    def _place_group(self, group: SubGroup, top: int, sheet: GroupSheet) -> float | None:
        """Place a sub-group in the best of its domains below ``top``; its points, or None when none works."""
        own = sheet.sheets[group.key]
        least = self._least(own.left(), self._missing(group))
        nominated = self._nominated(group, top, own)
        gradients = self.search.gradients(self.job, group, top, evict=self.promise)
        for gradient in [[nominated], *gradients] if nominated is not None else gradients:
            held = self.search.rooms.held(own.left(), gradient).tolist()
            able = [at for at, number in zip(gradient, held, strict=True) if number >= least]
            promised: tuple[int, float] | None = None
            for domain, points in self.search.ranked(group, able) if len(able) != 1 else self._only(group, able[0]):
                left = self._try_group(group, domain, own)
                if left is None:
                    continue
                if self._group_ready(group):
                    sheet.sheets[group.key] = left[0]
                    return points
                self.undo(left[1])
                promised = promised or (None if self.settled else (domain, points))
            if promised is not None:
                again = self._try_group(group, promised[0], own)
                if again is not None:
                    sheet.sheets[group.key] = again[0]
                    return promised[1]
        return None

    def _only(self, group: SubGroup, domain: int) -> list[tuple[int, float]]:
        """Points of a single candidate."""
        return [(domain, float(self.search.points(group, [domain])[0]))]

    def _try_group(self, group: SubGroup, domain: int, sheet: Worksheet) -> tuple[Worksheet, Mark] | None:
        """Place a sub-group's tasks in one domain; None, and nothing changed, when that is not enough."""
        own, mark = sheet.copy(), self.mark()
        self._place_tasks(group, domain, own)
        placed = self.cycle.transaction.checkpoint() > mark[0]
        if placed and (self._group_ready(group) or self._group_pipelined(group)):
            return own, mark
        self.undo(mark)
        return None

    def _place_tasks(self, group: SubGroup, domain: int, sheet: Worksheet) -> None:
        cycle, job, hooks = self.cycle, self.job, self.hooks
        missing, failed = self._missing(group), set[str]()
        cycle.report(job).failed_roles = failed
        while sheet:
            tasks = sheet.rest()
            first = tasks[0]
            if first.role and first.role in failed:
                sheet.done(len(tasks))
                continue
            room = hooks.headroom(job.queue, first.pod_class, len(tasks))
            if room == 0:
                refuse(cycle, job, first)
                sheet.done(len(tasks))
                continue
            few = room if missing > 0 else min(room, 1)  # surplus pods compete through the orders
            allocated, tried = self._place_run(group, domain, tasks[:few], max(missing, 1))
            if tried:
                missing -= allocated
                sheet.done(tried)
                if missing <= 0 and self._group_ready(group):
                    return
                continue
            self.stuck = (first, domain)
            if first.role:
                failed.add(first.role)
            sheet.done(len(tasks))
            if not self._worth_going_on(group):
                return

    def _place_run(self, group: SubGroup, domain: int, tasks: list[Task], wanted: int) -> tuple[int, int]:
        """As for plain jobs, on the nodes of one domain: tasks allocated, and tasks dealt with."""
        first, transaction = tasks[0], self.cycle.transaction
        if self.hooks.has("prefilter") and (reason := self.hooks.prefilter(first)) is not None:
            report = self.cycle.report(self.job)
            report.task, report.fit = report.task or first, report.fit or self.cycle.fits.refused(reason)
            return 0, 0
        now = queue_limits.room(self.job.queue, first.pod_class, now=True)
        futures = (False,) * (now > 0 and not self.promise) + (True,) * (self.promise or self.cycle.session.releasing)
        if first.nominated_node:
            column = self.cycle.session.nodes.table.index.get(first.nominated_node, -1)
            if column >= 0 and column in self.search.tree.columns[domain]:
                for future in futures:
                    if self.search.taker(group, domain, first.pod_class, future=future).admits(column):
                        transaction.place_on(self.job, first, column, pipelined=future)
                        group.took(column)
                        return int(not future), 1
        for future in futures:
            taker = self.search.taker(group, domain, first.pod_class, future=future)
            columns = transaction.place(self.job, tasks if future else tasks[: min(wanted, now)], taker)
            if columns:
                return 0 if future else len(columns), len(columns)
        return 0, 0

    def _nominated(self, group: SubGroup, top: int, sheet: Worksheet) -> int | None:
        """The domain that an earlier cycle made room in, when every waiting task has its node below ``top``."""
        tree, index = self.search.tree, self.cycle.session.nodes.table.index
        columns = [index.get(task.nominated_node, -1) for task in sheet.left()]
        if not columns or min(columns) < 0:
            return None
        domain = tree.common(group.at, tree.common_of(columns))
        limit = group.limit
        allowed = tree.is_above(top, domain) and (limit is None or int(tree.tiers[domain]) <= limit)
        return domain if allowed else None

    # ---- when it is enough

    def starts_whole(self, since: int) -> bool:
        """Whether no sub-group would start in part: each that got a place after the checkpoint ``since`` is ready."""
        if not self.many:
            return True
        log = self.cycle.transaction.log[since:]
        placed = {task.key for entry in log if entry.status is TaskStatus.ALLOCATED for task in entry.tasks}
        return all(
            self._group_ready(group)
            for group in self.groups.values()
            if any(task.key in placed for task in group.tasks)
        )

    def _missing(self, group: SubGroup) -> int:
        """Tasks that the group still needs, as far as that is known."""
        if not self.many:
            return self.hooks.missing(self.job)
        return max(group.minimum - group.ready_count, 0) if self.hooks.has("group_ready") else 0

    def _group_ready(self, group: SubGroup) -> bool:
        if not self.many:
            return self.hooks.ready(self.job)
        return all(method(group) for _, method in self.hooks.flat["group_ready"])

    def _group_pipelined(self, group: SubGroup) -> bool:
        if not self.many:
            return self.hooks.vote("pipelined", self.job) is None
        for tier in self.hooks.by_tier["group_pipelined"]:
            permitted = False
            for _, method in tier:
                answer = method(group)
                if isinstance(answer, Refusal):
                    return False
                permitted = permitted or answer == Vote.PERMIT
            if permitted:
                return True
        return True

    def _worth_going_on(self, group: SubGroup) -> bool:
        """After a task found no node: could the others still be enough?"""
        if not self.many:
            return worth_going_on(self.cycle, self.job)
        return group.minimum < len(group.tasks) and self.job.min_member < self.job.size

    # ---- undoing

    def mark(self) -> Mark:
        """The present places, for `undo`."""
        return self.cycle.transaction.checkpoint(), [(group, group.mark()) for group in self.groups.values()]

    def undo(self, mark: Mark) -> None:
        """Take everything back to `mark`."""
        self.cycle.transaction.rollback(mark[0])
        for group, places in mark[1]:
            group.restore(places)
