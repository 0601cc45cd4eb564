"""Whether a victim could win its place back: then its eviction would be for nothing, and be repeated."""

from __future__ import annotations

from dataclasses import dataclass

from unisono.cluster.podclass import PodClass
from unisono.engine.cycle import Cycle
from unisono.engine.job_state import JobState
from unisono.engine.orders import Key


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stood in the orders before it was promised anything: so it will stand in the next cycle.

    Attributes:
        job: who takes.
        queue_key, job_key: its queue's and its own.

    """

    job: JobState
    queue_key: Key
    job_key: Key

    @classmethod
    def of(cls, cycle: Cycle, job: JobState) -> Standing:
        """The standing of a job as it is now."""
        return cls(job, cycle.orders.queue_key(job.queue), cycle.orders.job_key(job))

    def holds_against(self, cycle: Cycle, victim: JobState, pod_class: PodClass) -> bool:
        """Whether ``victim``, which has just lost a task of the class, will be served later or has no claim to it.

        Jobs of one queue are served by job order, others by queue order; else the victim's queue must have no room for
        the task, or must not be allowed to take it back from others.
        """
        if victim is self.job:
            return True
        if victim.queue is self.job.queue:
            return self.job_key < cycle.orders.job_key(victim)
        return (
            self.queue_key < cycle.orders.queue_key(victim.queue)
            or cycle.hooks.headroom(victim.queue, pod_class, 1) < 1
            or cycle.hooks.overused(victim.queue) is not None
            or cycle.hooks.first("preemptive", victim.queue, [pod_class]) is not None
        )
