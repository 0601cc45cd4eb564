"""The loop that places the waiting tasks of one group: a plain job, or a sub-group in one of its domains."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import FitErrors
from unisono.engine.cycle.transaction import Taker
from unisono.engine.placement.other_ways import ANYWHERE, PlacesSearch, Within
from unisono.engine.placement.remaining_tasks import RemainingTasks
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState


class TaskGroup(ABC):
    """Tasks that are placed together, and where they may go.

    Attributes:
        cycle: the session's cycle.
        job: whose tasks they are.
        within: to what this trial keeps its pods.
    """

    def __init__(self, cycle: Cycle, job: JobState, within: Within = ANYWHERE) -> None:
        self.cycle = cycle
        self.job = job
        self.within = within

    # ---- when it is enough

    @abstractmethod
    def missing(self) -> int:
        """How many tasks the group still needs, as far as that is known."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether the group can start."""

    @abstractmethod
    def may_start(self, left: RemainingTasks) -> bool:
        """After a task found no node: could the group still start with those that are ``left``?"""

    # ---- where tasks go

    @abstractmethod
    def taker(self, pod_class: PodClass, *, future: bool) -> Taker:
        """The best nodes for tasks of a class; ``future``: resources that are being released count as free."""

    @abstractmethod
    def futures(self, now: int, *, nominated: bool) -> Sequence[bool]:
        """The values of ``future`` to try, in order.

        Args:
            now: how many tasks the queue's limits let start now.
            nominated: for a task on the node that an earlier cycle chose.
        """

    def nominated(self, task: Task) -> int:
        """Column of the node that an earlier cycle chose for the task; -1 where there is none."""
        column = self.cycle.session.snapshot.nodes.index.get(task.nominated_node, -1)
        kept = self.within.nodes.get(task.pod_class.id)
        return column if column < 0 or kept is None or kept[column] else -1

    @abstractmethod
    def took(self, column: int) -> None:
        """A task was placed on its nominated node."""

    # ---- failures

    def refused(self, task: Task, errors: FitErrors) -> None:
        """A filter refuses the task on every node."""
        note_failure(self.cycle, self.job, task, errors)

    @abstractmethod
    def found_no_node(self, task: Task, now: int) -> None:
        """No node takes the task; ``now``: how many tasks the queue's limits let start now."""


def place_tasks(group: TaskGroup, remaining: RemainingTasks) -> None:
    """Place tasks until the group is ready or nothing more can be placed; tried tasks are taken off ``remaining``.

    Tasks that look for other pods of the group are tried again, where they found no node, when others have been placed.
    """
    if group.within.search is not None:
        _place_searching(group, remaining, group.within.search)
        return
    hooks, job = group.cycle.hooks, group.job
    missing = group.missing()
    while remaining:
        tasks = remaining.rest()
        first = tasks[0]
        room = hooks.headroom(job, first.pod_class, len(tasks))
        if room == 0:
            _note_quota(group, first)
            remaining.done(len(tasks))
            continue
        reason = hooks.prefilter(first) if hooks.has("prefilter") else None
        # Surplus tasks compete through the orders; and those that others wait for may have to be in several places.
        few = room if missing > 0 and not remaining.has_aside else min(room, 1)
        now = queue_limits.room(job, first.pod_class, now=True)
        allocated, tried = _place_run(group, tasks[:few], max(missing, 1), now) if reason is None else (0, 0)
        if tried:
            missing -= allocated
            remaining.done(tried)
            remaining.recall()
            if missing <= 0 and group.ready():
                return
            continue
        if reason is None and _waits_for_others(remaining):
            remaining.set_aside()
            continue
        if reason is not None:
            group.refused(first, group.cycle.fits.refused(reason))
        else:
            group.found_no_node(first, now)
        remaining.done(len(tasks))
        if not group.may_start(remaining):
            return


def _place_searching(group: TaskGroup, remaining: RemainingTasks, search: PlacesSearch) -> None:
    """Place all that is searched for, or nothing."""
    columns: list[int] = []
    if not _find_places(group, search, dict.fromkeys(search.tasks, 0), columns):
        return
    for column in columns:
        group.took(column)
    placed = {task.key for tasks in search.tasks.values() for task in tasks}
    remaining.follow(RemainingTasks([task for task in remaining.left() if task.key not in placed]))


def _find_places(group: TaskGroup, search: PlacesSearch, done: dict[PodClass, int], columns: list[int]) -> bool:
    """Place what is left; where a pod finds no node, those before it move on.

    Args:
        group: what is placed.
        search: how.
        done: so many pods of each class have places.
        columns: these places, in the order in which they were taken.
    """
    cycle, job = group.cycle, group.job
    waiting = [kind for kind, tasks in search.tasks.items() if done[kind] < len(tasks)]
    for kind in waiting if search.in_any_order else waiting[:1]:
        task, candidates = search.tasks[kind][done[kind]], search.candidates[kind]
        if not cycle.hooks.headroom(job, kind, 1) or not queue_limits.room(job, kind, now=True):
            continue
        if cycle.hooks.has("prefilter") and cycle.hooks.prefilter(task) is not None:
            continue
        # Which of equal pods is where means nothing.
        first = candidates.index(columns[-1]) if done[kind] and not search.in_any_order else 0
        for column in candidates[first:]:
            search.left -= 1
            if search.left < 0:
                return False
            if not group.taker(kind, future=False).admits(column):
                continue
            mark = cycle.transaction.checkpoint()
            cycle.transaction.place_on(job, task, column, pipelined=False)
            columns.append(column)
            if _find_places(group, search, {**done, kind: done[kind] + 1}, columns):
                return True
            columns.pop()
            cycle.transaction.rollback(mark)
    return not waiting


def _waits_for_others(remaining: RemainingTasks) -> bool:
    """Whether a place of a task that comes later may open nodes to the next one: by its affinity, or its spread."""
    first, *later = remaining.kinds()
    terms = first.terms
    near = {terms.near_all} if terms.near else set()
    selectors = near.union(spread.selector for spread in terms.spread if spread.hard)
    return bool(selectors) and any(kind is not first and not selectors.isdisjoint(kind.matched) for kind in later)


def _place_run(group: TaskGroup, tasks: list[Task], wanted: int, now: int) -> tuple[int, int]:
    """Place up to ``wanted`` equal tasks on free resources, or, where none is free, all on resources being released.

    Returns:
        tasks that hold free resources, and tasks dealt with; (0, 0) when no node takes the first.
    """
    first, cycle, job = tasks[0], group.cycle, group.job
    if first.nominated_node and (future := _place_nominated(group, first, now)) is not None:
        return int(not future), 1
    for future in group.futures(now, nominated=False):
        if cycle.tables.rules_out(first.pod_class, future=future):
            continue
        some = tasks if future else tasks[: min(wanted, now)]
        columns = cycle.transaction.place(job, some, group.taker(first.pod_class, future=future))
        if columns:
            return 0 if future else len(columns), len(columns)
    return 0, 0


def _place_nominated(group: TaskGroup, task: Task, now: int) -> bool | None:
    """Place a task on the node that an earlier cycle chose: whether on resources being released; None: not at all."""
    column = group.nominated(task)
    if column < 0:
        return None
    for future in group.futures(now, nominated=True):
        if group.taker(task.pod_class, future=future).admits(column):
            group.cycle.transaction.place_on(group.job, task, column, pipelined=future)
            group.took(column)
            return future
    return None


def _note_quota(group: TaskGroup, task: Task) -> None:
    """Note that a quota lets the job have no more tasks of this kind."""
    report = group.cycle.report(group.job)
    if report.quota is None:
        report.quota = group.cycle.hooks.allocatable(group.job, task.pod_class)
        report.refused = task


def note_failure(cycle: Cycle, job: JobState, task: Task, errors: FitErrors) -> None:
    """Note that no node takes a task."""
    report = cycle.report(job)
    if report.fit is None:
        report.task, report.fit = task, errors
