"""The jobs of a queue in their order, and serving one of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from operator import itemgetter

from unisono.cluster.status import TaskStatus
from unisono.cluster.waiting_jobs import Alike, Entry
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.placement.domain_advice import Advice, advise
from unisono.engine.placement.plain_jobs import place_job
from unisono.engine.placement.remaining_tasks import RemainingByGroup, RemainingTasks
from unisono.engine.placement.sub_group_solver import Solver
from unisono.engine.placement.task_loop import note_failure
from unisono.engine.plugin_host.orders import Heap, Key, Orders
from unisono.engine.session.choices import open_choice
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import is_grouped

# Serving one job with topology or sub-groups, and what is remembered when no domain works.


class AdviceByJob(dict[str, Advice]):
    """Jobs that no allowed domain took although the cluster could, by key."""


def advice_of(cycle: Cycle) -> AdviceByJob:
    """See `AdviceByJob`."""
    return cycle.session.shared.of(AdviceByJob, AdviceByJob)


def place_grouped(cycle: Cycle, job: JobState, remaining: RemainingByGroup) -> bool:
    """Place tasks of the job until it is ready, within the domains that its topology allows; commit when it is.

    Tasks that are not placed stay in ``remaining``. A job that would be ready with resources being released keeps its
    places for the session; otherwise all is undone.

    Returns:
        whether the job was committed, so that it may be served again.
    """
    cycle.session.subject = job
    start = cycle.transaction.checkpoint()
    solver = Solver(cycle, job, remaining)
    left = solver.solve()
    if left is None:
        _remember(cycle, job, solver)
        remaining.by_group.clear()
        return False
    remaining.by_group = left.by_group
    if not cycle.hooks.ready(job) or not solver.starts_whole(start):
        cycle.transaction.keep(start)
        return False
    cycle.commit(start, job)
    if not left and solver.stuck is not None and job.status(solver.stuck[0]) is TaskStatus.PENDING:
        note_failure(cycle, job, solver.stuck[0], cycle.fits.errors(solver.stuck[0].pod_class))
    return True


def _remember(cycle: Cycle, job: JobState, solver: Solver) -> None:
    """Note the failure: reasons of the nodes, and of the domains."""
    tasks = [task for key in solver.groups for task in solver.given.tasks(key)]
    report = cycle.report(job)
    if tasks:
        stuck = solver.stuck[0] if solver.stuck is not None else tasks[0]
        note_failure(cycle, job, stuck, cycle.fits.errors(stuck.pod_class))
    if report.quota is not None:
        return
    advice = advise(solver, max(cycle.hooks.missing(job), 1))
    if advice is not None:
        advice_of(cycle)[job.key] = advice


# The jobs of a queue in their order, of which those that sleep are only looked at when their turn comes.


# Placing the waiting tasks of one job, whatever way it is to be placed in.

Remaining = RemainingTasks | RemainingByGroup


def remaining_of(cycle: Cycle, job: JobState) -> Remaining:
    """What is left to place of a job: its waiting tasks, by group where the network's topology counts.

    Tasks that request nothing come last. They are left to backfill unless the gang needs them to start, a domain binds
    them, or they were promised a place.
    """
    tasks = cycle.pending(job, best_effort=False)
    grouped = is_grouped(job, cycle.session.snapshot.hyper_nodes)
    if job.pending_best_effort:
        needed = grouped or not cycle.hooks.ready(job)
        tasks += [task for task in cycle.pending(job, best_effort=True) if needed or task.nominated_node]
    if grouped:
        return RemainingByGroup.of(cycle, job, tasks)
    return RemainingTasks(tasks)


def place(cycle: Cycle, job: JobState, remaining: Remaining) -> bool:
    """Place what can be placed, all that the gang needs or nothing; whether anything was committed.

    A gang that may take nodes of several kinds is tried on one after the other, until it has its places or is promised
    them; where it has none, what is told of it is what the first kind lacks.
    """
    choice = open_choice(cycle.session, job)
    if choice is None:
        return _place(cycle, job, remaining)
    before = cycle.reports.pop(job.key, None)
    first_failure: tuple[JobReport | None, Advice | None] | None = None
    left = remaining
    for _ in choice.each():
        if before is not None:
            cycle.reports[job.key] = replace(before)
        if choice.made_again:
            if choice.in_vain or is_grouped(job, cycle.session.snapshot.hyper_nodes):
                continue  # its groups are those of its pods as they are
            left = remaining_of(cycle, job)
        else:
            left = remaining.copy()
        mark = cycle.transaction.checkpoint()
        placed = _place(cycle, job, left)
        if choice.made_again and not placed:
            cycle.transaction.rollback(mark)  # pods that are to be made again can be promised nothing for later
        if placed or job.gained:
            _follow(remaining, left)
            return placed
        failure = cycle.reports.pop(job.key, None), advice_of(cycle).pop(job.key, None)
        if failure[0] is not None and failure[0].quota is not None:
            choice.refused[choice.now] = failure[0].quota
        if first_failure is None:
            first_failure, choice.told = failure, choice.now
    choice.rest()
    _follow(remaining, left)
    report, advice = first_failure or (None, None)
    if report is not None:
        cycle.reports[job.key] = report
    if advice is not None:
        advice_of(cycle)[job.key] = advice
    return False


def _place(cycle: Cycle, job: JobState, remaining: Remaining) -> bool:
    if isinstance(remaining, RemainingByGroup):
        return place_grouped(cycle, job, remaining)
    return place_job(cycle, job, remaining)


def _follow(remaining: Remaining, left: Remaining) -> None:
    """Have left what a trial has left."""
    if isinstance(remaining, RemainingByGroup) and isinstance(left, RemainingByGroup):
        remaining.by_group = left.by_group
    elif isinstance(remaining, RemainingTasks) and isinstance(left, RemainingTasks):
        remaining.follow(left)


NextIn = Callable[[Alike, int], int]
"""Of jobs that are alike, from a position in their order on: the first that may be placed, or how many they are."""
_FIRST = itemgetter(0)


class _Stream:
    """Jobs of one kin that are still in line: those from ``at`` on."""

    __slots__ = ("alike", "at", "entries", "next", "prefix", "stamp")

    def __init__(self, alike: Alike, prefix: Key) -> None:
        self.alike, self.entries, self.prefix, self.at = alike, alike.aged, prefix, 0
        self.next, self.stamp = -1, object()

    def key(self, at: int) -> Key:
        return (*self.prefix, *self.entries[at])

    def before(self, bound: Key | None) -> int:
        """Position of the first job that does not come before ``bound``; None comes after all."""
        own, size = self.prefix, len(self.prefix)
        if self.at == len(self.entries):
            return self.at
        if bound is None or own < bound[:size]:
            return len(self.entries)
        if own > bound[:size]:
            return self.at
        entry: Entry = (bound[size], bound[size + 1])
        return max(self.at, bisect_left(self.entries, entry))


class WaitingLine(Heap[JobState]):
    """As a heap of all jobs, some of which sleep.

    Args:
        orders: the order of jobs, which is the same for all of a kin but for age and name.
        session: knows the jobs.
        jobs: those that are awake.
        asleep: the others.
    """

    __slots__ = ("_session", "_streams")

    def __init__(self, orders: Orders, session: Session, jobs: Sequence[JobState], asleep: Sequence[Alike]) -> None:
        super().__init__(orders.job_key, jobs)
        self._session = session
        self._streams = [_Stream(alike, orders.job_key(self._state(alike.sample))[:-2]) for alike in asleep]

    def _state(self, key: str) -> JobState:
        job = self._session.job(key)
        assert job is not None  # its queue is known
        return job

    def __len__(self) -> int:
        return super().__len__() + sum(len(stream.entries) - stream.at for stream in self._streams)

    def _head(self) -> _Stream | None:
        """The stream whose next job comes before all others that are in line; None where one that is awake does."""
        left = [stream for stream in self._streams if stream.at < len(stream.entries)]
        if not left:
            return None
        first = min(left, key=lambda stream: stream.key(stream.at))
        key = first.key(first.at)
        if (self._sorted and self._sorted[-1][0] < key) or (self._pushed and self._pushed[0][0] < key):
            return None
        return first

    def pop(self) -> JobState:
        """Take the lowest item out."""
        head = self._head()
        if head is None:
            return super().pop()
        head.at += 1
        return self._state(head.entries[head.at - 1][1])

    def leads(self, item: JobState) -> bool:
        """Whether ``item``, which is not in it, would be the next one if it were put in."""
        head = self._head()
        return super().leads(item) and (head is None or not head.key(head.at) < self._key(item))

    def ahead(self, alike: Callable[[JobState], bool], most: int) -> list[JobState]:
        """The next items, in order, as long as they are ``alike``, at most ``most``; they stay in.

        None are seen where an item that was put back comes first.
        """
        jobs: list[JobState] = []
        bound = self._pushed[0][0] if self._pushed else None
        for key, item in self._in_order():
            if len(jobs) >= most or (bound is not None and bound < key):
                break
            job = self._state(item) if isinstance(item, str) else item
            if not alike(job):
                break
            jobs.append(job)
        return jobs

    def _in_order(self) -> Iterator[tuple[Key, JobState | str]]:
        """Those that sleep by name."""

        def of(stream: _Stream) -> Iterator[tuple[Key, str]]:
            return ((stream.key(at), stream.entries[at][1]) for at in range(stream.at, len(stream.entries)))

        return merge(reversed(self._sorted), *map(of, self._streams), key=_FIRST)

    def take_while(self, passes: Callable[[JobState], bool]) -> int:
        """Take out the next items, in order, as long as they pass; how many did."""
        number = 0
        while len(self):
            head = self._head()
            if head is None:
                entries = self._sorted
                if self._pushed and (not entries or self._pushed[0][0] < entries[-1][0]):
                    entries = self._pushed
                job = entries[0 if entries is self._pushed else -1][1]
            else:
                job = self._state(head.entries[head.at][1])
            if not passes(job):
                break
            self.pop()
            number += 1
        return number

    def drop(self, number: int) -> None:
        """Take out the first ``number`` items that `ahead` has shown."""
        for _ in range(number):
            head = self._head_of_shown()
            if head is None:
                self._sorted.pop()
            else:
                head.at += 1

    def _head_of_shown(self) -> _Stream | None:
        pushed, self._pushed = self._pushed, []
        try:
            return self._head()
        finally:
            self._pushed = pushed

    def items(self) -> list[JobState]:
        """What is waiting, in no particular order."""
        asleep = [self._state(key) for stream in self._streams for _, key in stream.entries[stream.at :]]
        return [*super().items(), *asleep]

    def drop_failing(self, fails: Callable[[JobState], bool], next_in: NextIn, stamp: Callable[[int], object]) -> int:
        """Take out the jobs that come before the first that may be placed; how many those were.

        Args:
            fails: whether a job that is awake fails as another one has.
            next_in: finds those that may be placed among those that sleep.
            stamp: of a kin, moves whenever ``next_in`` may find a later one.
        """
        bound: Key | None = None
        for stream in self._streams:
            if stream.at < len(stream.entries):
                now = stamp(stream.alike.kin)
                if stream.stamp != now or stream.next < stream.at:
                    stream.next, stream.stamp = next_in(stream.alike, stream.at), now
                at = stream.next
                if at < len(stream.entries):
                    key = stream.key(at)
                    bound = key if bound is None or key < bound else bound
        number = 0
        while True:
            entries, at = self._sorted, -1
            if self._pushed and (not entries or self._pushed[0][0] < entries[-1][0]):
                entries, at = self._pushed, 0
            if not entries or (bound is not None and bound < entries[at][0]):
                break
            if not fails(entries[at][1]):
                bound = entries[at][0]
                break
            super().pop()
            number += 1
        for stream in self._streams:
            at = stream.before(bound)
            number += at - stream.at
            stream.at = at
        return number
