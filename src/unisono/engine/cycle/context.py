"""One scheduling cycle: open, run the actions, close."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from unisono.cluster.records import Job, Task
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import Failure, Purpose
from unisono.engine.candidates.static_answers import StaticResults
from unisono.engine.candidates.tables import Tables
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.contract.plugin import Lookup
from unisono.engine.cycle.reports import FitReporter, JobReport
from unisono.engine.cycle.sleeping_jobs import awake_jobs, barred_jobs, sleeping_jobs, woken_jobs
from unisono.engine.cycle.transaction import Placement, Transaction
from unisono.engine.decisions import NO_ANNOTATIONS, Bind, Decisions, Eviction, Preparation, Violation
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.orders import Orders
from unisono.engine.plugin_host.stopwatch import Stopwatch
from unisono.engine.session.budgets import open_spendings
from unisono.engine.session.choices import Choices
from unisono.engine.session.job_state import JobState
from unisono.engine.session.session import Session
from unisono.engine.verdict import Cause

_UNKNOWN = object()


def _strays(session: Session) -> list[Job]:
    """PodGroups that wait for a queue that does not exist."""
    keys = sorted(key for key in session.snapshot.active if session.job(key) is None)
    records = (session.snapshot.jobs.get(key) for key in keys)
    return [record for record in records if record is not None and record.known]


def _waiting(job: JobState, best_effort: bool | None) -> Iterator[Task]:
    places = job.places
    return (
        task
        for task in job.record.pending.values()
        if not task.gated
        and task.owned
        and (best_effort is None or task.pod_class.best_effort is best_effort)
        and task.key not in places
    )


class Cycle:
    """Everything that actions work with.

    Attributes:
        config: actions and plug-ins of this cycle.
        lookup: where plug-ins come from.
        stopwatch: measures actions and plug-ins.
        session, hooks, orders, tables, transaction: see their modules.
        asleep: jobs that it looks at only where one of them may be placed.
        jobs: all other jobs that it has to look at, in order of their keys: with pending tasks, not yet running, or
            changed.
        strays: PodGroups whose queue does not exist, in order of their keys.
        reports: what went wrong, by job key; only for jobs with which something did.
        decisions: collected so far.
        bound: committed placements, from which binds are made.
        evicted: committed evictions and the PodGroup that they are for.
        action: name of the action that runs.
        notes: for what pods are evicted, by key, where the reason of their eviction does not say it.
        notices: how many seconds before they are told that do not say it themselves, by key.
        heads: first jobs of queues with strict order that found no place, by queue.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig,
        now: float,
        seed: int,
        lookup: Lookup,
        stopwatch: Stopwatch | None = None,
        *,
        reasons: bool = True,
        of: Collection[int] = (),
    ) -> None:
        self.config = config
        self.lookup = lookup
        self.stopwatch = stopwatch or Stopwatch()
        self.session = Session(snapshot, now, seed)
        open_spendings(self.session)
        self.hooks = CombinedAnswers(config, lookup, self.session, self.stopwatch)
        static = StaticResults.of(self.session, config)
        self.tables = Tables(self.session, self.hooks, static)
        self.session.places = self.tables.places
        self.hooks.open(self.session)
        self.orders = Orders(self.hooks)
        self.fits = FitReporter(self.session, self.hooks, static, self.tables, reasons=reasons, of=of)
        self.transaction = Transaction(self.session, self.hooks)
        self.reports: dict[str, JobReport] = {}
        self.decisions = Decisions(cycle=f"{snapshot.version}-{seed}")
        self.action = ""
        self.heads: dict[str, JobState] = {}
        self.bound: list[Placement] = []
        self.evicted: list[tuple[Placement, str]] = []
        self.failed: list[Task] = []
        self.notes: dict[str, str] = {}
        self.notices: dict[str, float] = {}
        self.asleep = [] if reasons else sleeping_jobs(self.session, self.hooks, config.actions)
        self.jobs = awake_jobs(self.session, self.asleep)
        job_count = len(self.jobs) + sum(map(len, self.asleep))
        self.strays = [] if job_count == len(snapshot.active) else _strays(self.session)
        barred = barred_jobs(self.session, self.jobs)
        self.eligible = [job for job in self.jobs if job.key not in barred] if barred else self.jobs
        for key, refusal in barred.items():
            self.reports[key] = JobReport(gate=refusal)
        self._valid: dict[str | int, Any] = {}
        self._set_back = bool(snapshot.setbacks)

    def served(self) -> list[JobState]:
        """`jobs`, and those that were asleep and have been looked at."""
        return [*self.jobs, *woken_jobs(self.session, self.asleep)] if self.asleep else self.jobs

    def keep_to(self, queues: Collection[str]) -> None:
        """Serve jobs of these queues only; before the actions."""
        self.eligible = [job for job in self.eligible if job.queue.name in queues]
        jobs = self.session.snapshot.jobs
        self.asleep = [alike for alike in self.asleep if jobs[alike.sample].queue in queues]

    def report(self, job: JobState) -> JobReport:
        """The job's report, new if it had none."""
        job_report = self.reports.get(job.key)
        if job_report is None:
            job_report = self.reports[job.key] = JobReport()
        return job_report

    def valid(self, job: JobState) -> bool:
        """Whether the job may be placed at all; asked once per cycle. One that loses pods in this cycle gets none."""
        if job.places and job.lost:
            return False
        if job.shape and not (job.places or self._set_back or self.hooks.guard.out or job.key in self._valid):
            shape_refusal = self._valid.get(job.shape, _UNKNOWN)
            if shape_refusal is None:
                return True  # as another one of its shape; jobs are mostly valid
        setback = self.session.snapshot.setbacks.get(job.key)
        if setback is not None and setback.waiting:
            self.report(job).setback = setback
            return False
        if job.key in self.hooks.guard.out:
            self.report(job).invalid = self.hooks.guard.out[job.key].refusal()
            return False
        shared = job.shape and not job.places and self.hooks.by_shape("valid")
        key = job.shape if shared and job.key not in self._valid else job.key
        answer = self._valid.get(key, _UNKNOWN)
        if answer is _UNKNOWN:
            answer = self.hooks.first("valid", job)
            failed = answer is not None and answer.cause is Cause.PLUGIN_FAILED
            self._valid[job.key if failed else key] = answer
        if answer is not None:
            self.report(job).invalid = answer
        return answer is None

    def pending(self, job: JobState, *, best_effort: bool | None = None) -> list[Task]:
        """Ungated pending tasks of a job in task order; only those that request nothing, or only others, if said."""
        return self.orders.tasks(list(_waiting(job, best_effort)))

    def has_pending(self, job: JobState, *, best_effort: bool | None = None) -> bool:
        """Whether `pending` has any."""
        return next(_waiting(job, best_effort), None) is not None

    def commit(self, since: int, beneficiary: JobState | None) -> None:
        """Let the transaction's placements after a checkpoint become decisions; shuffled pods have no beneficiary."""
        committed = self.transaction.commit(since)
        self.bound += committed.binds
        key = beneficiary.key if beneficiary is not None else ""
        self.evicted += [(placement, key) for placement in committed.evictions]

    def bind_whole(self, gangs: Sequence[tuple[JobState, list[Task]]], columns: Sequence[int]) -> bool:
        """Let whole gangs that a table has placed become decisions; False when they must be placed one by one."""
        bound = self.transaction.bind_whole(gangs, columns)
        self.bound += bound or ()
        return bound is not None

    def wake(self, time: float) -> None:
        """Let a cycle come at that time (seconds since the epoch) at the latest, even if nothing changes."""
        previous = self.decisions.again_at
        self.decisions.again_at = time if previous is None else min(previous, time)

    def write_out(self) -> None:
        """Turn what was committed into binds and evictions."""
        names = self.session.snapshot.nodes.names
        self._let_make_again()
        binds: list[Bind] = []
        for placement in self.bound:
            key = placement.job.key
            for task, column in zip(placement.tasks, placement.columns, strict=True):
                notes = self._annotations(task, column) if self.hooks.has("annotations") else NO_ANNOTATIONS
                needs: tuple[Preparation, ...] = ()
                if task.pod_class.claims:
                    needs = self._preparations(task, column)
                binds.append(Bind(task.namespace, task.name, task.uid, names[column], key, notes, needs))
        out = self.hooks.guard.out
        if out:
            self._take_back(out)
        self.decisions.binds += [bind for bind in binds if bind.job not in out]
        self.decisions.evictions += [
            Eviction(task.namespace, task.name, task.uid, task.node, Purpose.SHUFFLE.value, "")
            for task in self.failed
            if task.job not in out
        ]
        for placement, beneficiary in self.evicted:
            if placement.job.key in out or beneficiary in out:
                continue
            reason = placement.reason
            self.decisions.evictions.extend(
                Eviction(
                    task.namespace,
                    task.name,
                    task.uid,
                    names[column],
                    reason,
                    beneficiary,
                    self.notes.get(task.key, ""),
                    self.notices.get(task.key, 0.0),
                )
                for task, column in zip(placement.tasks, placement.columns, strict=True)
            )

    def _let_make_again(self) -> None:
        """Jobs wait again that found their places on a kind of nodes for which their pods must be made again.

        Until then their places were kept from others, and so they are in each cycle that comes before the new pods.
        """
        choices = self.session.shared.find(Choices)
        if choices is None:
            return
        jobs = {placement.job.key: placement.job for placement in self.bound if placement.job.key in choices.jobs}
        remade = {key: choice for key, job in jobs.items() if (choice := choices.of(job)) and choice.made_again}
        for key, choice in remade.items():
            choices.make_again(choice)
            for placement in [each for each in self.bound if each.job.key == key]:
                job, number = placement.job, len(placement.tasks)
                job.move(placement.pod_class, placement.role, number, TaskStatus.BINDING, TaskStatus.ALLOCATED)
                self.transaction.withdraw(placement)
            for placement in [each for each in self.transaction.log if each.job.key == key]:
                self.transaction.withdraw(placement)
            self.reports.pop(key, None)
            choice.rest()
        self.bound = [placement for placement in self.bound if placement.job.key not in remade]

    def _take_back(self, out: Mapping[str, Failure]) -> None:
        """Jobs for which a plug-in failed after they had been placed wait again."""
        for placement in self.bound:
            job = placement.job
            if job.key not in out:
                continue
            job.move(placement.pod_class, placement.role, len(placement.tasks), TaskStatus.BINDING, placement.before)
            for task in placement.tasks:
                del job.places[task.key]
        self.bound = [placement for placement in self.bound if placement.job.key not in out]

    def _preparations(self, task: Task, column: int) -> tuple[Preparation, ...]:
        """What must be written before a pod with claims is bound."""
        return tuple(need for _, method in self.hooks.flat["preparations"] for need in method(task, column))

    def _annotations(self, task: Task, column: int) -> Mapping[str, str]:
        """What the plug-ins tell a pod with its bind."""
        notes: dict[str, str] = {}
        for _, method in self.hooks.flat["annotations"]:
            notes |= method(task, column) or NO_ANNOTATIONS
        return notes

    def end(self) -> None:
        """Let go of everything but the decisions.

        Session, plug-ins and tables refer to each other. They are taken apart here, so that their memory is free at
        once: the garbage collector looks at what a cycle made only when it searches everything (`unisono.gc_pauses`).
        """
        self.session.end()
        decisions, guard = self.decisions, self.hooks.guard
        for part in (self.transaction, self.tables, self.fits, self.orders, guard, self.hooks, self.session, self):
            vars(part).clear()
        self.decisions = decisions

    def fail(self, what: str, error: Exception) -> None:
        """Report an error of the engine itself."""
        self.decisions.violations.append(Violation(what, f"{what} failed: {type(error).__name__}: {error}"))

    def held_back(self) -> dict[str, list[tuple[Task, TaskStatus, int]]]:
        """Tasks that keep a place for this session without being bound, by job key."""
        held: dict[str, list[tuple[Task, TaskStatus, int]]] = {}
        for placement in self.transaction.log:
            held.setdefault(placement.job.key, []).extend(
                (task, placement.status, column)
                for task, column in zip(placement.tasks, placement.columns, strict=True)
            )
        return held
