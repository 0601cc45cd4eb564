"""One job that waits, with everything that finding its cause needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from unisono.cluster.records import Task
from unisono.cluster.status import TaskStatus
from unisono.engine.candidates.tables import EmptyCluster
from unisono.engine.cycle.context import Cycle
from unisono.engine.cycle.reports import JobReport
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause, Holder, Verdict
from unisono.engine.verdicts.demand import Kind, kinds_of
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.filter_causes import FilterCauses
from unisono.engine.verdicts.holders import holders_of
from unisono.engine.verdicts.lines import Rivals, place
from unisono.engine.verdicts.pending_pods import MOST_SAMPLES, PodsAlike, pending_pods
from unisono.engine.verdicts.quotas import QuotaRoom
from unisono.engine.verdicts.shortage import Shortages
from unisono.engine.verdicts.unmade_pods import imagined, unmade_pods


class Tools:
    """Answers that the jobs of one cycle share."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.capacity = EmptyCluster(cycle.session, cycle.hooks, cycle.fits.static)
        self.quotas = QuotaRoom(cycle.session)
        self.rivals = Rivals(cycle)
        self.filters = FilterCauses(cycle)
        self.shortages = Shortages(cycle)

    def holders(self, need: Mapping[str, int]) -> tuple[Holder, ...]:
        """The queues that hold most of what is needed."""
        return holders_of(self.cycle, tuple(need))


@dataclass
class Waiting:
    """One job that waits.

    Attributes:
        tools: shared by all jobs of the cycle.
        job: as the session left it.
        report: what went wrong with it.
    """

    tools: Tools
    job: JobState
    report: JobReport

    @property
    def cycle(self) -> Cycle:
        """The cycle in which it waits."""
        return self.tools.cycle

    @property
    def pending(self) -> int:
        """How many of its pods have no place."""
        return self.job.counts[TaskStatus.PENDING]

    @cached_property
    def unmade(self) -> list[PodsAlike]:
        """Pods of its gang that do not exist yet, where it is known what they will ask for."""
        return unmade_pods(self.cycle.session.snapshot, self.job.record)

    @cached_property
    def kinds(self) -> list[Kind]:
        """What its pods ask for, those that do not exist yet included; empty where that is not known."""
        return kinds_of(self.cycle.session, self.job)

    @cached_property
    def samples(self) -> list[Task]:
        """One pod of each kind: it waits, or stands for those that do not exist yet."""
        by_class = {task.pod_class.id: task for task in pending_pods(self.job.record).samples}
        for task in imagined(self.job.record, self.unmade):
            if len(by_class) == MOST_SAMPLES:
                break
            by_class.setdefault(task.pod_class.id, task)
        return list(by_class.values())

    @property
    def placeable(self) -> int:
        """Pods that have found a place, in this cycle or before."""
        return self.job.ready_count + self.report.schedulable()

    def asks(self, name: str) -> int:
        """What those pods ask for that its gang lacks, or all that wait once it has its minimum."""
        pods, missing = sum(kind.count for kind in self.kinds), self.job.min_member - self.job.ready_count
        amount = sum(kind.count * kind.requests.get(name, int(name == "pods")) for kind in self.kinds)
        return -(-amount * missing // pods) if 0 < missing < pods else amount

    @cached_property
    def findable(self) -> int:
        """Pods of the gang that have a place or would find one, whatever becomes of the others, at most its minimum.

        An action gives a gang up as soon as it can no longer start, and says nothing of pods that it has not tried.
        """
        table, self.cycle.session.subject = self.cycle.session.snapshot.nodes, self.job
        everywhere = table.ready & ~table.unschedulable
        masks = [self.cycle.fits.passing(kind.pod_class) if kind.pod_class else everywhere for kind in self.kinds]
        return self.tools.shortages.find_room(self.job, self.kinds, masks)

    @property
    def missing(self) -> int:
        """Pods that its gang lacks, at least one."""
        return max(self.job.min_member - self.placeable, 1)

    def verdict(self, cause: Cause, message: str, **more: Any) -> Verdict:
        """A verdict on this job; ``more``: further attributes of it."""
        position, ahead = place(self.cycle, self.job)
        fields: dict[str, Any] = {"tasks_placeable": self.job.ready_count, "tasks_needed": self.job.min_member}
        fields |= {"position": position, "ahead": ahead}
        return Verdict(self.job.key, cause, message, queue=self.job.queue.name, **(fields | more))

    def simple(self, cause: Cause, message: str, last: str = "") -> Draft:
        """A draft without changes to try; ``last``: advice in words."""
        return Draft(self.verdict(cause, message), last=last)
