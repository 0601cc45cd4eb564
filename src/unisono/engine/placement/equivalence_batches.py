"""Jobs of the same shape are served together where that gives what serving them one by one gives.

Whole gangs of equal tasks that follow each other in the order are placed with one request to the table of candidates,
and their places are dealt out. When a gang finds no place and takes nothing, the next one of its kin meets the same
cluster, so it fails for the same reasons, at the places where the first one failed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from copy import copy

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.waiting_jobs import Alike
from unisono.engine.answers import Parts, Scope
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.cycle.transaction import Placement
from unisono.engine.placement.waiting_line import WaitingLine
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.session import queue_limits
from unisono.engine.session.job_state import JobState, QueueState
from unisono.engine.verdict import Cause

_State = tuple[int, ...]
_ONE_PART = Parts("", (), "")
_MOST = 4096
"""Jobs served with one request, so that what was placed in vain and is taken back stays small."""


class EquivalenceBatches:
    """Serves jobs of one shape together in one run of allocate."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self._failed: dict[tuple[int, str], JobReport] = {}  # all in the same state
        self._failed_in: _State = ()
        self._likes: Counter[int] = Counter()  # how often those of a kin have failed in that state
        self._asks = cycle.hooks.has("prefilter")

    def _shared(self) -> bool:
        """Whether plug-ins answer by shape all that the placing of a job depends on, but for nodes."""
        hooks = self.cycle.hooks
        by_shape = hooks.by_shape("ready", "missing", "pipelined") and not self.cycle.session.limits_accounts
        return by_shape and not hooks.hears_placements() and not hooks.hosted("placed")

    def _like(self, job: JobState) -> tuple[int, str] | None:
        """Its kin, and what tells it apart where plug-ins look at the job itself; None: it is like no other."""
        kin, cycle = job.kin, self.cycle
        if not kin or not job.record.pending:
            return None
        if cycle.tables.scope is not Scope.JOB:
            return kin, ""
        cycle.session.subject = job
        alike = cycle.tables.alike(next(iter(job.record.pending.values())).pod_class)
        return None if alike == job.key else (kin, alike)

    def _fresh(self, job: JobState) -> bool:
        """It has a shape, and nothing has happened to it in this session."""
        return bool(job.shape) and not job.places and job.key not in self.cycle.reports

    def state(self) -> _State:
        """What moves whenever places are taken for good."""
        cycle = self.cycle
        return len(cycle.bound), len(cycle.evicted), cycle.transaction.checkpoint()

    # ---- gangs that fit

    def place(self, queue: QueueState, jobs: Heap[JobState]) -> bool:
        """Place the next jobs of ``queue`` together; False when they must be served one by one."""
        cycle, hooks = self.cycle, self.cycle.hooks
        if cycle.tables.scope is Scope.JOB or not self._shared():
            return False
        first = next(iter(jobs.ahead(self._fresh, 1)), None)
        if first is None:
            return False
        if self._known((first.kin, "")) is not None:
            return False
        if len(jobs.ahead(lambda job: job.shape == first.shape, 2)) < 2:
            return False
        size, sample = first.size, next(iter(first.record.pending.values()))
        if max(hooks.missing(first), 1) < size:  # it would start with a part, and come back for the rest
            return False
        cycle.session.subject = first
        most = self._most(queue, sample.pod_class, size)
        if most < 2:
            return False
        gangs = self._gangs(jobs, first, most)
        if len(gangs) < 2:
            return False
        table = cycle.tables.of(sample.pod_class)
        if not table.batchable or (table.layer is not None and not table.by_lines):
            return False
        columns = table.take(size * len(gangs))
        whole = len(columns) // size
        cycle.transaction.give_back(sample.pod_class, columns[whole * size :])
        del columns[whole * size :]
        if not whole or not cycle.bind_whole(gangs[:whole], columns):
            return False
        jobs.drop(whole)
        return True

    def _most(self, queue: QueueState, pod_class: PodClass, size: int) -> int:
        """How many gangs of ``size`` the quotas let pass without a question in between."""
        hooks = self.cycle.hooks
        before_overused = hooks.underused(queue, pod_class)
        if before_overused < 0:
            return 0
        room = min(hooks.headroom(queue, pod_class, _MOST * size), queue_limits.room(queue, pod_class, now=True))
        return min(room // size, before_overused // size + 1)

    def _gangs(self, jobs: Heap[JobState], first: JobState, most: int) -> list[tuple[JobState, list[Task]]]:
        """The next jobs of the same shape with their tasks in order, up to one that must be looked at by itself."""
        cycle, asks = self.cycle, self._asks
        gangs: list[tuple[JobState, list[Task]]] = []
        for job in jobs.ahead(lambda job: job.shape == first.shape and self._fresh(job), most):
            tasks = cycle.orders.tasks(list(job.record.pending.values()))
            if asks and cycle.hooks.prefilter(tasks[0]) is not None:
                break
            gangs.append((job, tasks))
        return gangs

    # ---- gangs that do not

    def note_failure(self, job: JobState, before: _State) -> None:
        """``job`` was served, from state ``before``, and holds nothing."""
        report = self.cycle.reports.get(job.key)
        if job.kin and not job.places and report is not None and self.state() == before and self._shared():
            like = self._like(job)
            if like is not None and self.cycle.hooks.failure_of(job) is None:
                if self._failed_in != before:
                    self._failed, self._failed_in = {}, before
                    self._likes.clear()
                self._failed[like] = report
                self._likes[job.kin] += 1

    def skip(self, queue: QueueState, jobs: Heap[JobState]) -> bool:
        """Report on the next jobs of ``queue``, up to the first that may fare better; whether there was any.

        Nothing moves meanwhile: the queue stays the first in order, and is over its share or not as it was.
        """
        hooks = self.cycle.hooks
        if not self._failed or queue.record.fifo or hooks.guard.failures or hooks.hosted("overused"):
            return False
        if self._failed_in != self.state():
            return False
        silent = not self._asks and not self.cycle.fits.reasons
        if isinstance(jobs, WaitingLine) and silent:
            return jobs.drop_failing(self._fail_silently, self._next_in, self._stamp) > 0
        return jobs.take_while(self._fail_silently if silent else self.fail) > 0

    def _stamp(self, kin: int) -> tuple[_State, int]:
        return self._failed_in, self._likes[kin]

    def _next_in(self, alike: Alike, at: int) -> int:
        """Of sleeping jobs, from a position on: the first that may fare better than those that have failed.

        Jobs of which something is to be reported are looked at one by one.
        """
        kin, entries = alike.kin, alike.aged
        parts = self._parts_of(alike)
        if parts is None:
            return at
        usual, others, other = parts
        failed = self._fails_quietly(kin, usual), not others or self._fails_quietly(kin, other)
        if all(failed):
            return len(entries)
        if not any(failed):
            return at
        place = bisect_left(others, entries[at])
        if failed[0]:
            return bisect_left(entries, others[place]) if place < len(others) else len(entries)
        while at < len(entries) and place < len(others) and entries[at] == others[place]:
            at, place = at + 1, place + 1
        return at

    def _parts_of(self, alike: Alike) -> Parts | None:
        if self.cycle.tables.scope is not Scope.JOB:
            return _ONE_PART
        self.cycle.session.subject = self.cycle.session.job(alike.sample)
        return self.cycle.tables.parts(alike)

    def _fails_quietly(self, kin: int, like: str) -> bool:
        report = self._failed.get((kin, like))
        return report is not None and (report.quota is None or report.quota.cause is not Cause.OVER_SHARE)

    def _fail_silently(self, job: JobState) -> bool:
        """As `fail` in the state in which others have failed, where nothing is asked and no reason is told."""
        if job.places or job.key in self.cycle.reports:
            return False
        like = self._like(job)
        report = self._failed.get(like) if like is not None else None
        if report is None:
            return False
        self.cycle.reports[job.key] = JobReport(quota=report.quota)
        return True

    def fail(self, job: JobState) -> bool:
        """Report what became of a job of the same kin, when nothing has been placed since then."""
        if not self._failed or not self._fresh(job):
            return False
        like = self._like(job)
        report = self._known(like) if like is not None else None
        if report is None:
            return False
        cycle = self.cycle
        tasks = cycle.orders.tasks(list(job.record.pending.values()))
        if self._asks and cycle.hooks.prefilter(tasks[0]) is not None:
            return False
        with_reasons = cycle.fits.reasons
        cycle.reports[job.key] = _copied(report, job, tasks) if with_reasons else JobReport(quota=report.quota)
        return True

    def _known(self, like: tuple[int, str]) -> JobReport | None:
        """What became of the last such job, if the next one would fare the same."""
        report = self._failed.get(like)
        return report if report is not None and self._failed_in == self.state() else None


def _copied(report: JobReport, job: JobState, tasks: list[Task]) -> JobReport:
    """A report for ``job`` as of an equal one; the n-th of its tasks stands for the n-th of the other's."""
    fresh = copy(report)
    fresh.discarded = []
    at = 0
    for placement in report.discarded:
        part = tasks[at : at + len(placement.tasks)]
        at += len(part)
        fresh.discarded.append(
            Placement(
                job, placement.pod_class, placement.role, part, placement.columns, placement.before, placement.status
            )
        )
    failed = tasks[min(at, len(tasks) - 1)]
    fresh.task = failed if report.task is not None else None
    fresh.refused = failed if report.refused is not None else None
    return fresh
