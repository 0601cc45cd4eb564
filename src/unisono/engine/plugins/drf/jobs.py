"""drf among jobs: the order of jobs by dominant share, and who may be preempted by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.records import Task
from unisono.cluster.resources import Vector
from unisono.engine.answers import BoolArray, FloatArray, Key, Purpose
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.amounts import aligned, dominant_share, listed

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session
    from unisono.engine.session.victims import VictimJobs

DELTA = 1e-6
"""Shares closer than this count as equal when victims are chosen."""


class JobDrf(Plugin):
    """Serves the job with the smallest dominant share first.

    The share is the largest part of any resource of the cluster (``pods`` included) that the job holds or was promised.
    """

    name = "drf"
    by_shape = True

    def open(self, session: Session) -> None:
        """Measure the cluster once."""
        self.session = session
        self._shares: tuple[VictimJobs, FloatArray] | None = None
        self.total = listed(session.sharable_total, session.registry)

    def job_key(self, job: JobState) -> Key:
        """The dominant share."""
        return 0.0 if job.holds_nothing else dominant_share(listed(job.claimed, self.session.registry), self.total)

    def victim_jobs(self, actor: JobState, task: Task | None, jobs: VictimJobs, purpose: Purpose) -> BoolArray | None:
        """Jobs whose share was not smaller than the actor's with its task before anything was taken from them."""
        if purpose is not Purpose.PREEMPT or task is None:
            return None
        registry = self.session.registry
        wanted = aligned(actor.claimed, registry) + aligned(task.pod_class.vector, registry)
        mine = dominant_share(wanted.tolist(), self.total)
        if self._shares is None or self._shares[0] is not jobs:
            shares = [dominant_share(listed(job.claimed, registry), self.total) for job in jobs.states]
            self._shares = jobs, np.array(shares, dtype=np.float64)
        return np.asarray(self._shares[1] >= mine - DELTA)

    def victims(
        self, actor: JobState, task: Task | None, candidates: Sequence[Task], purpose: Purpose
    ) -> BoolArray | None:
        """Tasks whose job would, without them, still have no smaller share than the actor with its task."""
        if purpose is not Purpose.PREEMPT or task is None:
            return None
        registry = self.session.registry
        wanted = aligned(actor.claimed, registry) + aligned(task.pod_class.vector, registry)
        mine = dominant_share(wanted.tolist(), self.total)
        rest: dict[str, Vector] = {}
        chosen = np.zeros(len(candidates), dtype=np.bool_)
        for index, other in enumerate(candidates):
            job = self.session.job(other.job)
            if job is None:
                continue
            held = rest.get(other.job)
            if held is None:
                held = aligned(job.claimed, registry)
            rest[other.job] = held = held - aligned(other.pod_class.vector, registry)
            theirs = dominant_share(held.tolist(), self.total)
            chosen[index] = mine < theirs or abs(mine - theirs) <= DELTA
        return chosen
