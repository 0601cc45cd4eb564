"""reservation: the gang that has waited longest is kept room for, and others may use it only without delaying it.

Off unless configured, because Volcano would give the room away. A gang that needs more than is ever free at one moment
starves while small jobs keep coming: each takes what the one before it has freed. Once such a gang has waited long
enough, nodes are chosen for it, and jobs that come after it may start there only when they end before it could start
(run times as pods state them, or as earlier runs show), or when they use what it does not need. This is EASY backfill,
see A. Mu'alem and D. Feitelson, "Utilization, predictability, workloads, and user runtime estimates in scheduling the
IBM SP2 with backfilling", IEEE TPDS 12 (2001).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.times import duration_or_none
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Job
from unisono.cluster.resources import PODS, fitted
from unisono.cluster.waiting_jobs import Alike
from unisono.engine.answers import Parts, Reason, Scope, Veto, Vote
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.reservation.plan import Plan, plan_for
from unisono.engine.plugins.reservation.queue_room import QueueRoom, room_in_queue
from unisono.engine.plugins.reservation.run_estimates import RunEstimates
from unisono.engine.plugins.reservation.starved_gangs import StarvedGangs
from unisono.engine.session.node_view import NodeView
from unisono.engine.verdict import Cause, reference

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session

_AFTER = Argument("reservation.after", "duration", "5m", "how long a gang must have waited before room is kept for it")
_GANGS = Argument("reservation.gangs", "int", 1, "gangs for which room is kept at a time, the longest waiting first")
_LEARN = Argument(
    "reservation.learnRunTimes", "bool", False, "expect jobs to run as long as the last two of their kind have"
)

_RUNS = "reservation.runs"
"""Under this name it is kept how long a job's waiting pods run at most, and jobs stand in that order."""
_MOST_TRIED = 16
"""Starved gangs looked at in one cycle."""


class ReservationPlugin(Plugin):
    """Keeps room for starved gangs."""

    name = "reservation"
    permits_only = True
    known_arguments = (_AFTER, _GANGS, _LEARN)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        after = duration_or_none(argument_value(_AFTER, self.arguments))
        self.after = max(after if after is not None else 300.0, 0.0)
        self.gangs = max(int(argument_value(_GANGS, self.arguments)), 0)
        self.learn = bool(argument_value(_LEARN, self.arguments))

    def open(self, session: Session) -> None:
        """Find the gangs that have waited too long; without any the plug-in says nothing in this session."""
        self.session = session
        self.estimates = RunEstimates(session, learned=self.learn)
        self.starved = StarvedGangs(session, self.after if self.gangs else inf)
        if self.starved:
            self.scope = Scope.JOB  # type: ignore[misc]  # wide only where it matters: it costs the sharing of answers

        self._rooms: dict[str, QueueRoom] = {}
        self._longest: dict[tuple[str, int], float] = {}
        self._parts: dict[int, tuple[Plan, Parts]] = {}

    # ---- admission

    def enqueueable(self, job: JobState) -> Vote:
        """Permit a gang that has waited too long, unless it could never start: room is kept for it once it has pods."""
        session = self.session
        if job.min_resources is None or job.min_member < 1 or session.now - job.created < self.after:
            return Vote.ABSTAIN
        limits = job.queue.record.capability or {}
        registry = session.registry
        allowed = all(
            registry.row(name) == PODS or _asked(job, registry.row(name)) <= most for name, most in limits.items()
        )
        fits = bool((job.min_resources <= fitted(session.usable_total, len(job.min_resources))).all())
        return Vote.PERMIT if allowed and fits else Vote.ABSTAIN

    # ---- nodes

    @cached_property
    def plans(self) -> list[Plan]:
        """What is kept, for one gang after the other; made when every plug-in is open."""
        return self._planned([])

    def _planned(self, plans: list[Plan]) -> list[Plan]:
        """``plans`` and those for the next gangs that wait, as things stand now."""
        tried = 0
        for job, tasks in self.starved:
            if len(plans) == self.gangs or tried == _MOST_TRIED:
                break
            if job.is_ready or any(plan.job.queue is job.queue for plan in plans):
                continue
            tried += 1
            room = room_in_queue(self.session, job, tasks)
            if room is None:
                continue
            plan = plan_for(self.session, job, tasks, plans, self.estimates)
            if plan is not None:
                plans.append(plan)
                self._rooms[job.key] = room
        return plans

    def _follow(self, job: JobState) -> None:
        """Gangs have started for which room was kept: it is kept for the next ones, before others are served."""
        left = [plan for plan in self.plans if not plan.job.is_ready]
        first = next((one for one, _ in self.starved if not one.is_ready), None)
        if first is not job or left:  # nothing is kept from the first in line, which is about to be served
            self.plans = self._planned(left)

    def concerns(self, pod_class: PodClass) -> bool:
        """Only while room is kept."""
        return bool(self.starved) and bool(self.plans)

    def is_pure(self, pod_class: PodClass) -> bool:
        """Which node it is matters while room is kept."""
        return not self.concerns(pod_class)

    def answers_alike(self, pod_class: PodClass) -> str | None:
        """Which of the plans concern the subject; the queue is told apart anyway."""
        job = self.session.subject
        if job is None:
            return None
        heeded = self._heeded(job, pod_class)
        if len(heeded) == 1:
            return heeded[0].job.key
        return ",".join([plan.job.key for plan in heeded])

    def answers_in_parts(self, pod_class: PodClass, jobs: Alike) -> Parts | None:
        """Those that end before the gang can start for which room is kept, and the others."""
        job, plans = self.session.subject, self.plans
        if job is None or self.learn or len(plans) > 1 or any(plan.job.is_ready for plan in plans):
            return None
        if not plans or job.priority > plans[0].job.priority:
            return Parts("", (), "")
        plan = plans[0]
        known = self._parts.get(jobs.shape)
        if known is None or known[0] is not plan:
            known = self._parts[jobs.shape] = plan, self._divided(plan, pod_class, jobs)
        return known[1]

    def _divided(self, plan: Plan, pod_class: PodClass, jobs: Alike) -> Parts:
        own = plan.job.created, plan.job.key
        there = plan.job.record.shape == jobs.shape
        if plan.start == inf:
            return Parts(plan.job.key, (own,) if there else (), "")
        now, records = self.session.now, self.session.snapshot.jobs
        runs = jobs.sorted_by(_RUNS, lambda key: self._longest_stated(records[key], pod_class) or inf)
        short = bisect_right(runs, plan.start, key=lambda entry: now + entry[0])
        if 2 * short > len(runs):
            longer = {(records[key].created, key) for _, key in runs[short:]} - {own}
            return Parts("", sorted(longer), plan.job.key)
        shorter = {(records[key].created, key) for _, key in runs[:short]}
        return Parts(plan.job.key, sorted(shorter | {own} if there else shorter), "")

    def _heeded(self, job: JobState, pod_class: PodClass) -> list[Plan]:
        """Plans from which pods of the class may take nothing when they are the job's; asked once per waiting job."""
        for plan in self.plans:
            if plan.job.is_ready:
                self._follow(job)
                break
        heeded: list[Plan] = []
        ends = -1.0
        for plan in self.plans:
            other = plan.job
            if job is other:
                break  # those behind it in line may not keep anything from it
            if job.priority > other.priority or (job.ready_count and job.broken) or other.is_ready:
                continue
            if plan.start < inf:
                if ends < 0:
                    longest = self._longest_run(job, pod_class)
                    ends = self.session.now + longest if longest else inf
                if ends <= plan.start:
                    continue  # its pods have ended when the gang can start
            heeded.append(plan)
        return heeded

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Refuse room that is kept for others."""
        job = self.session.subject
        vetoes: list[Veto] = []
        for plan in self._heeded(job, pod_class) if job is not None else ():
            whose = reference(plan.job.key, "PodGroup")
            if job is not None and self._rooms[plan.job.key].kept_from(job, pod_class):
                name = plan.job.queue.name
                text = f"node(s) would take room of queue {name} that is kept for {whose}"
                vetoes.append(Veto(np.ones(len(nodes.columns), dtype=np.bool_), Reason(text, cause=Cause.RESERVED)))
                continue
            refused = ~plan.leaves(pod_class, nodes)
            vetoes.append(Veto(refused, Reason(f"node(s) were kept for {whose}", cause=Cause.RESERVED)))
        return vetoes

    def _longest_run(self, job: JobState, pod_class: PodClass) -> float:
        """Seconds that the job's waiting pods of the class run at most; 0.0 where that is not known of one."""
        if not self.learn:
            return self._longest_stated(job.record, pod_class)
        key = (job.key, pod_class.id)
        longest = self._longest.get(key)
        if longest is None:
            longest = self._longest[key] = self._longest_of(job.record, pod_class)
        return longest

    def _longest_stated(self, record: Job, pod_class: PodClass) -> float:
        """As `_longest_run` where earlier runs do not count; it is kept with the record."""
        key = (_RUNS, pod_class.id)
        longest: float | None = record.derived.get(key)
        if longest is None:
            longest = record.derived[key] = self._longest_of(record, pod_class)
        return longest

    def _longest_of(self, record: Job, pod_class: PodClass) -> float:
        pending = record.pending.values()
        seconds = [self.estimates.seconds(task) for task in pending if task.pod_class is pod_class]
        return max(seconds) if seconds and all(seconds) else 0.0


def _asked(job: JobState, row: int) -> int:
    return int(job.min_resources[row]) if job.min_resources is not None and row < len(job.min_resources) else 0
