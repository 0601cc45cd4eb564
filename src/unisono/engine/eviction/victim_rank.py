"""Whether a victim could win its place back: then its eviction would be for nothing, and be repeated."""

from __future__ import annotations

from dataclasses import dataclass

from unisono.cluster.records import Task
from unisono.engine.answers import Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugin_host.heap import Key
from unisono.engine.session.job_state import JobState


@dataclass(frozen=True, slots=True)
class ActorRank:
    """Rank of a job that others may be evicted for, before it was promised anything: its rank in the next cycle.

    Attributes:
        job: who takes.
        queue_key, job_key: its queue's and its own.

    """

    job: JobState
    queue_key: Key
    job_key: Key

    @classmethod
    def of(cls, cycle: Cycle, job: JobState) -> ActorRank:
        """The rank of a job as it is now."""
        return cls(job, cycle.orders.queue_key(job.queue), cycle.orders.job_key(job))

    def served_before(self, cycle: Cycle, victim: JobState) -> bool:
        """Whether a job of the same queue that has just lost a task will be served later; tasks of one job always."""
        return victim is self.job or self.job_key < cycle.orders.job_key(victim)

    def holds_against(self, cycle: Cycle, taken: Task, lost: Task, victim: JobState) -> bool:
        """Whether ``victim``, of another queue, which lost the task ``lost`` for ``taken``, cannot take it back.

        Its queue comes later, or has no room for the task, or may not reclaim for it, or may not reclaim from this one.
        """
        hooks, pod_class = cycle.hooks, lost.pod_class
        if (
            self.queue_key < cycle.orders.queue_key(victim.queue)
            or not self._has_room(cycle, victim, lost)
            or hooks.overused(victim.queue) is not None
            or hooks.first("preemptive", victim.queue, [pod_class]) is not None
        ):
            return True
        if not taken.preemptable or not self.job.queue.record.reclaimable:
            return True
        return not hooks.victims(victim, lost, [taken], Purpose.RECLAIM).any()

    @staticmethod
    def _has_room(cycle: Cycle, victim: JobState, lost: Task) -> bool:
        """Whether the queue's quota lets it have the task again; limits of the victim itself are not counted upon."""
        session = cycle.session
        subject, session.subject = session.subject, None
        try:
            return cycle.hooks.headroom(victim.queue, lost.pod_class, 1) > 0
        finally:
            session.subject = subject
