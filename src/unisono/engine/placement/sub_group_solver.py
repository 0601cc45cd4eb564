"""Places a job whose pods form groups with bounds of their own, from the inside out."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors
from unisono.engine.placement.domain_search import DomainTaker, Search, search_of
from unisono.engine.placement.other_ways import ANYWHERE, Attempts, Effort, Outcome, Within, bonds_of, retry
from unisono.engine.placement.plain_jobs import may_start
from unisono.engine.placement.remaining_tasks import RemainingByGroup, RemainingTasks
from unisono.engine.placement.task_loop import TaskGroup, place_tasks
from unisono.engine.session.job_state import JobState
from unisono.engine.session.sub_groups import SubGroup, by_class, groups_of

# When a sub-group of a job has enough; a job without sub-groups is one group, for which the job's own rules hold.


class GroupRules:
    """The rules for the groups of one job.

    Attributes:
        many: the job has sub-groups of its own.
    """

    def __init__(self, cycle: Cycle, job: JobState) -> None:
        self.cycle = cycle
        self.job = job
        self.hooks = cycle.hooks
        self.many = bool(job.record.sub_groups)

    def missing(self, group: SubGroup) -> int:
        """Tasks that the group still needs, as far as that is known."""
        if not self.many:
            return self.hooks.missing(self.job)
        return group.lacking() if self.hooks.has("group_ready") else 0

    def ready(self, group: SubGroup) -> bool:
        """Whether the group can start."""
        return self.hooks.group_ready(group) if self.many else self.hooks.ready(self.job)

    def pipelined(self, group: SubGroup) -> bool:
        """Whether the group could start once resources have been released."""
        refusal = self.hooks.group_vote(group) if self.many else self.hooks.vote("pipelined", self.job)
        return refusal is None

    def may_start(self, group: SubGroup, left: RemainingTasks) -> bool:
        """After a task found no node: could those that are ``left`` still be enough?"""
        if not self.many:
            return may_start(self.job, left)
        return group.placed_count + len(left) >= group.minimum


# A sub-group of a job, or all of a job with topology, in one domain.


class GroupInDomain(TaskGroup):
    """One trial to place a group in a domain.

    Attributes:
        promise: see `Solver`.
        stuck: the last task that found no node.
    """

    def __init__(
        self,
        rules: GroupRules,
        search: Search,
        group: SubGroup,
        domain: int,
        within: Within = ANYWHERE,
        *,
        promise: bool,
    ) -> None:
        super().__init__(rules.cycle, rules.job, within)
        self.rules = rules
        self.search = search
        self.group = group
        self.domain = domain
        self.promise = promise
        self.stuck: Task | None = None

    def missing(self) -> int:
        """See `GroupRules`."""
        return self.rules.missing(self.group)

    def ready(self) -> bool:
        """See `GroupRules`."""
        return self.rules.ready(self.group)

    def may_start(self, left: RemainingTasks) -> bool:
        """See `GroupRules`."""
        return self.rules.may_start(self.group, left)

    def taker(self, pod_class: PodClass, *, future: bool) -> DomainTaker:
        """The nodes of the domain."""
        kept = self.within.nodes.get(pod_class.id)
        return self.search.taker(self.group, self.domain, pod_class, kept, future=future)

    def futures(self, now: int, *, nominated: bool) -> Sequence[bool]:
        """What is free first, unless places are only promised; then what is being released."""
        later = self.promise or self.cycle.session.releasing
        return (False,) * (now > 0 and not self.promise) + (True,) * later

    def nominated(self, task: Task) -> int:
        """Only nodes of the domain."""
        column = super().nominated(task)
        return column if column >= 0 and column in self.search.tree.columns[self.domain] else -1

    def took(self, column: int) -> None:
        """The group follows its places."""
        self.group.took((column,))

    def refused(self, task: Task, errors: FitErrors) -> None:
        """Keep the reason, too: it is the same in every domain."""
        super().refused(task, errors)
        self.stuck = task

    def found_no_node(self, task: Task, now: int) -> None:
        """Why is found out when no domain works."""
        self.stuck = task


# Finding the domain of a job, and within it those of its sub-groups: trials in the transaction, undone or kept.


TRIALS = 32
"""Domains of one gradient that are tried at most for a job with several sub-groups, best first."""


class Solver:
    """Places one job; every trial starts from the same remaining tasks.

    Attributes:
        promise: places are only promised, on resources that are or will be free: room is being made by evictions.
        whole: only domains that hold all that is left are tried.
        stuck: the last task that found no node, and the domain.
        effort: what is left for other ways than the first in each domain.
        within: where pods are kept while the domains of a label are tried for all of the job.
    """

    def __init__(self, cycle: Cycle, job: JobState, remaining: RemainingByGroup, *, promise: bool = False) -> None:
        self.cycle = cycle
        self.job = job
        self.search: Search = search_of(cycle)
        self.hooks = cycle.hooks
        self.given = remaining
        self.all_groups = groups_of(cycle.session, job)
        self.groups = {group.key: group for group in self.all_groups if group.key in remaining.by_group}
        self.rules = GroupRules(cycle, job)
        self.promise = promise
        self.whole = False
        self.stuck: tuple[Task, int] | None = None
        self.effort = Effort()
        self.within = ANYWHERE

    # ---- the whole job

    def solve(self) -> RemainingByGroup | None:
        """Place the job in the best domain of the first gradient in which it can be placed.

        A job that may not leave its domain and wants more pods than it needs first looks for one that holds them all.

        Returns:
            the tasks that are left, the placements standing in the transaction; None, and nothing changed, when no
            domain works.
        """
        root = self.search.tree.root
        left = self._solve_below(root)
        return left if left is not None or not self.rules.many else self._solve_bound(root)

    def _solve_bound(self, root: int) -> RemainingByGroup | None:
        """The same where pods of several sub-groups require each other near: the first bound all to its place."""
        given, previous_stuck, solutions = self.given, self.stuck, list[RemainingByGroup]()
        tasks = [task for key in self.groups for task in given.tasks(key)]
        if previous_stuck is None or not bonds_of(task.pod_class for task in tasks):
            return None

        def trial(order: RemainingTasks, within: Within) -> Outcome:
            own = RemainingByGroup.of(self.cycle, self.job, order.left()).by_group  # of a group with nothing left: none
            self.given = RemainingByGroup({key: own.get(key) or RemainingTasks([]) for key in given.by_group})
            self.within, self.stuck = within, None
            left = self._solve_below(root)
            solutions.extend(() if left is None else (left,))
            stuck = self.stuck[0] if self.stuck is not None else None
            return Outcome(started=left is not None, stuck=stuck, placed=len(order))

        needed = max(self.hooks.missing(self.job), 1)
        attempts = Attempts(RemainingTasks(tasks), needed, None, trial, self.effort)
        first = Outcome(started=False, stuck=previous_stuck[0], placed=len(tasks))
        works = retry(self.cycle, attempts, first) is not None
        self.given, self.within, self.stuck = given, ANYWHERE, previous_stuck
        return solutions[-1] if works else None

    def _solve_below(self, root: int) -> RemainingByGroup | None:
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
        if self.rules.many or self.promise or wish is None or not wish.hard:
            return False
        tasks = [task for key in self.groups for task in self.given.tasks(key)]
        return len(tasks) > max(self.hooks.missing(self.job), 1) and not any(task.nominated_node for task in tasks)

    def solve_in(self, domain: int) -> bool:
        """Place the job in one domain; the caller undoes what stands when it does not work."""
        return bool(self._large_enough([domain])) and self._try(domain)[0] is not None

    def _gradients(self, root: int) -> Iterator[Sequence[int]]:
        yield from self.search.gradients(self.job, None, root)

    def _solve_gradient(self, gradient: Sequence[int]) -> RemainingByGroup | None:
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
        return self.search.able(tasks, domains, least)

    def _least(self, tasks: Sequence[Task], missing: int) -> int:
        """How many of the tasks a domain must hold to be tried."""
        return len(tasks) if self.whole else max(missing, 1)

    def _try(self, domain: int) -> tuple[RemainingByGroup | None, float]:
        """Place sub-groups in one domain until the job is ready; None when it becomes neither ready nor pipelined.

        Where resources are being released, sub-groups that can start now come first: one that waits must not keep the
        others waiting.
        """
        if self.rules.many and self.cycle.session.releasing and not self.promise:
            mark = self.mark()
            left, points = self._try_once(domain, settled=True)
            if left is not None and self.hooks.ready(self.job):
                return left, points
            self.undo(mark)
        return self._try_once(domain, settled=False)

    def _try_once(self, domain: int, *, settled: bool) -> tuple[RemainingByGroup | None, float]:
        """One trial; ``settled``: no sub-group waits for resources that are being released."""
        remaining, mark = self.given.copy(), self.mark()
        start = mark[0]
        points = self._place_some(
            self.all_groups.outermost, domain, remaining, lambda: self.hooks.ready(self.job), settled=settled
        )
        if self._is_enough(start):
            return remaining, points
        if self.rules.many and self.cycle.transaction.checkpoint() != start:
            self.undo(mark)
            other = OtherDomains(self, domain, remaining := self.given.copy(), settled=settled)
            if other.place(self._needed(remaining)) and self._is_enough(start):
                return remaining, other.points
        return None, 0.0

    def _needed(self, remaining: RemainingByGroup) -> list[SubGroup]:
        """Sub-groups that the job cannot start without; all that wait, where those are too few pods for it."""
        waiting = [group for group in self.all_groups.outermost if remaining.has(group)]
        needed = self.search.needed(self.job)
        least = [group for group in waiting if group.key in needed]
        pods = sum(self.rules.missing(group) for group in least)
        return least if pods >= self.hooks.missing(self.job) else waiting

    def _is_enough(self, since: int) -> bool:
        """Whether something was placed after ``since``, and the job can start, now or later."""
        if self.cycle.transaction.checkpoint() == since:
            return False
        return self.hooks.ready(self.job) or self.hooks.vote("pipelined", self.job) is None

    def _place_some(
        self,
        groups: Sequence[SubGroup],
        domain: int,
        remaining: RemainingByGroup,
        enough: Callable[[], bool],
        *,
        settled: bool,
    ) -> float:
        """Place sub-groups in one domain, those that are needed first, until it is enough; the sum of their points."""
        needed = self.search.needed(self.job) if self.rules.many else set()
        waiting = [group for group in groups if remaining.has(group)]
        alone, points = len(waiting) == 1, 0.0

        def order(group: SubGroup) -> tuple[tuple[Any, ...], SubGroup]:
            return () if alone else self.search.job_key(group, group.key in needed), group

        heap = [order(group) for group in waiting]
        heapq.heapify(heap)
        while heap:
            group = heapq.heappop(heap)[1]
            group_points = self._place_group(group, domain, remaining, settled=settled)
            if group_points is None:
                continue
            points += group_points
            if remaining.has(group):
                heapq.heappush(heap, order(group))
            if enough():
                break
        return points

    # ---- one sub-group

    def _place_group(self, group: SubGroup, top: int, remaining: RemainingByGroup, *, settled: bool) -> float | None:
        """Place a sub-group in the best of its domains below ``top``; its points, or None when none works."""
        own = remaining.of_group(group)
        tasks = own.left()
        least = self.least_of(group, tasks)
        nominated = self._nominated(group, top, tasks)
        gradients = self.search.gradients(self.job, group, top, evict=self.promise)
        for gradient in [[nominated], *gradients] if nominated is not None else gradients:
            able = self.search.able(tasks, gradient, least)
            promised: tuple[int, float] | None = None
            needless = len(able) == 1 and not self.rules.many  # a job that is ready has nothing to compare with
            for domain, points in [(able[0], 0.0)] if needless else self.ranked(group, able):
                left = self.try_group(group, domain, own, settled=settled)
                if left is None:
                    continue
                if self.rules.ready(group):
                    remaining.by_group |= left[0].by_group
                    return points
                self.undo(left[1])
                if promised is None and not settled:
                    promised = domain, self.ranked(group, able)[0][1] if needless else points
            if promised is not None:
                again = self.try_group(group, promised[0], own, settled=settled)
                if again is not None:
                    remaining.by_group |= again[0].by_group
                    return promised[1]
        return None

    def is_ready(self, group: SubGroup) -> bool:
        """Whether the sub-group can start."""
        return self.rules.ready(group)

    def least_of(self, group: SubGroup, tasks: Sequence[Task]) -> int:
        """How many of a sub-group's tasks a domain must hold to be tried."""
        return self._least(tasks, self.rules.missing(group))

    def able(self, group: SubGroup, top: int, own: RemainingByGroup) -> list[int]:
        """Domains of a sub-group below ``top`` that may hold what it needs, the nearest ones first."""
        tasks, gradients = own.left(), self.search.gradients(self.job, group, top, evict=self.promise)
        domains = [at for gradient in gradients for at in gradient]
        return self.search.able(tasks, domains, self.least_of(group, tasks))

    def ranked(self, group: SubGroup, domains: list[int]) -> list[tuple[int, float]]:
        """Domains with their points, best first."""
        if len(domains) == 1:
            return [(domains[0], float(self.search.points(group, domains)[0]))]
        return self.search.ranked(group, domains)

    def try_group(
        self, group: SubGroup, domain: int, own: RemainingByGroup, *, settled: bool
    ) -> tuple[RemainingByGroup, Mark] | None:
        """Place a sub-group's tasks in one domain; None, and nothing changed, when that is not enough."""
        if not group.parts:
            placed = self._try_tasks(group, domain, own.by_group[group.key])
            return None if placed is None else (RemainingByGroup({group.key: placed[0]}), placed[1])
        left, mark = own.of_group(group), self.mark()
        self._place_some(group.parts, domain, left, lambda: self.rules.ready(group), settled=settled)
        if self.cycle.transaction.checkpoint() != mark[0] and (self.rules.ready(group) or self.rules.pipelined(group)):
            return left, mark
        self.undo(mark)
        return None

    def _try_tasks(self, group: SubGroup, domain: int, remaining: RemainingTasks) -> tuple[RemainingTasks, Mark] | None:
        """The same of a sub-group that is made of tasks."""
        own, mark = remaining.copy(), self.mark()
        first = self._trial(group, domain, own, mark, ANYWHERE)
        if first.started:
            return own, mark
        if first.stuck is None:
            return None
        area = np.zeros(self.cycle.session.nodes.size, dtype=np.bool_)
        area[self.search.tree.columns[domain]] = True
        attempts = Attempts(
            remaining,
            max(self.rules.missing(group), 1),
            area,
            lambda tasks, within: self._trial(group, domain, tasks, mark, within),
            self.effort,
        )
        previous_stuck = self.stuck
        left = retry(self.cycle, attempts, first)
        self.stuck = previous_stuck
        return None if left is None else (left, mark)

    def _trial(self, group: SubGroup, domain: int, tasks: RemainingTasks, mark: Mark, within: Within) -> Outcome:
        """Place tasks in the given order; undone where that is not enough."""
        kept = self.within.narrowed(within)
        trial = GroupInDomain(self.rules, self.search, group, domain, kept, promise=self.promise)
        place_tasks(trial, tasks)
        if trial.stuck is not None:
            self.stuck = trial.stuck, domain
        placed = sum(len(placement.tasks) for placement in self.cycle.transaction.log[mark[0] :])
        if placed and (self.rules.ready(group) or self.rules.pipelined(group)):
            return Outcome(started=True)
        self.undo(mark)
        return Outcome(started=False, stuck=trial.stuck if placed else None, placed=placed)

    def _nominated(self, group: SubGroup, top: int, tasks: Sequence[Task]) -> int | None:
        """The domain that an earlier cycle made room in, when every waiting task has its node below ``top``."""
        tree, index = self.search.tree, self.cycle.session.snapshot.nodes.index
        columns = [index.get(task.nominated_node, -1) for task in tasks]
        if not columns or min(columns) < 0:
            return None
        domain = tree.common(group.at, tree.common_of(columns))
        limit = group.limit
        allowed = tree.is_above(top, domain) and (limit is None or int(tree.tiers[domain]) <= limit)
        return domain if allowed else None

    # ---- when it is enough

    def starts_whole(self, since: int) -> bool:
        """Whether no sub-group would start in part: each that got a place after ``since``, and all above, is ready."""
        if not self.rules.many:
            return True
        log = self.cycle.transaction.log[since:]
        placed = {task.key for entry in log if entry.status is TaskStatus.ALLOCATED for task in entry.tasks}
        return all(
            self.rules.ready(group)
            for group in (*self.groups.values(), *self.all_groups.inner)
            if any(task.key in placed for task in group.tasks)
        )

    # ---- undoing

    def mark(self) -> Mark:
        """The present places, for `undo`."""
        groups = (*self.groups.values(), *self.all_groups.inner)
        return self.cycle.transaction.checkpoint(), [(group, group.mark()) for group in groups]

    def undo(self, mark: Mark) -> None:
        """Take everything back to `mark`."""
        self.cycle.transaction.rollback(mark[0])
        for group, places in mark[1]:
            group.restore(places)


# Other domains for the sub-groups of a gang, where the best one of each did not leave room for all.


Mark = tuple[int, list[tuple[SubGroup, tuple[int, dict[int, int]]]]]
"""A checkpoint of the transaction, and where every group of the job was."""


_State = tuple[int, tuple[tuple[int, ...], ...]]


class OtherDomains:
    """One search; what it places stands in the transaction, and what is left of the tasks in ``remaining``.

    Attributes:
        points: of the domains that were chosen.
    """

    def __init__(self, solver: Solver, top: int, remaining: RemainingByGroup, *, settled: bool) -> None:
        self._solver, self._top, self._remaining, self._settled = solver, top, remaining, settled
        self._failed: set[_State] = set()
        self.points = 0.0

    def place(self, groups: Sequence[SubGroup]) -> bool:
        """Place each of the groups in a domain of its own choice; nothing has changed where that cannot be done."""
        waiting = sorted(groups, key=lambda group: (-self._least(group), group.number))
        return len(waiting) > 1 and self._go(waiting)

    def _least(self, group: SubGroup) -> int:
        return self._solver.least_of(group, self._remaining.of_group(group).left())

    def _go(self, groups: Sequence[SubGroup]) -> bool:
        """The first of the groups in each of its domains, and the rest wherever that leaves room."""
        if not groups:
            return True
        able = [self._solver.able(group, self._top, self._remaining.of_group(group)) for group in groups]
        if not all(able) or (state := self._state(groups, able)) in self._failed:
            return False
        group, effort = groups[0], self._solver.effort
        own = self._remaining.of_group(group)
        for domain, points in self._solver.ranked(group, able[0]):
            if effort.trials <= 0 or effort.placements <= 0:
                return False
            effort.trials -= 1
            effort.placements -= len(own.left())
            tried = self._solver.try_group(group, domain, own, settled=self._settled)
            if tried is None:
                continue
            left, mark = tried
            before = {key: self._remaining.by_group[key] for key in left.by_group}
            self._remaining.by_group |= left.by_group
            if (not self._settled or self._solver.is_ready(group)) and self._go(groups[1:]):
                self.points += points
                return True
            self._remaining.by_group |= before
            self._solver.undo(mark)
        self._failed.add(state)
        return False

    def _state(self, groups: Sequence[SubGroup], able: Sequence[Sequence[int]]) -> _State:
        """How many pods of each kind that is left the domains have room for: what a failure depends on."""
        domains = sorted({at for each in able for at in each})
        classes = by_class(task for group in groups for task in self._remaining.of_group(group).left())
        slots = self._solver.search.slots
        return len(groups), tuple(tuple(slots.room(each, domains)) for each in classes)
