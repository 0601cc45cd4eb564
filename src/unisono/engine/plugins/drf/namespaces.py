"""drf with ``drf.namespaceOrder``: within a queue, the namespaces take turns by dominant share.

Start-time fair queueing (Goyal, Vin and Cheng, 1996): a job's turn is what its namespace holds of the cluster in the
queue, plus what the jobs of the namespace before it ask for. So the first job of a namespace that holds nothing comes
before the second one of any other, however many jobs that one has submitted.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from unisono.engine.answers import Key
from unisono.engine.plugins.drf.jobs import JobDrf
from unisono.engine.session.amounts import aligned, dominant_share
from unisono.engine.session.job_state import JobState

_Line = tuple[str, str]
"""A queue and a namespace."""


class NamespaceDrf(JobDrf):
    """Orders jobs by the turn of their namespace, then by their own share."""

    by_shape = False

    def job_key(self, job: JobState) -> Key:
        """The turn as of the beginning of the cycle, and the share of the job."""
        turn = self._turns.get(job.key)
        if turn is None:  # the job waits for nothing
            turn = self._held.get((job.queue.name, job.namespace), 0.0)
        return turn, super().job_key(job)

    @cached_property
    def _held(self) -> dict[_Line, float]:
        """The dominant share of what each namespace holds in a queue."""
        registry = self.session.registry
        sums: dict[_Line, np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = defaultdict(registry.zeros)
        for record in self.session.snapshot.jobs.values():
            sums[record.queue, record.namespace] += aligned(record.allocated, registry)
        return {line: dominant_share(held.tolist(), self.total) for line, held in sums.items()}

    @cached_property
    def _turns(self) -> dict[str, float]:
        """The turn of each job that waits, by key; within a namespace by priority, then age."""
        ahead, turns = dict(self._held), dict[str, float]()
        for job in sorted(self.session.active, key=lambda job: (-job.priority, job.created, job.key)):
            line = job.queue.name, job.namespace
            turns[job.key] = ahead.get(line, 0.0)
            ahead[line] = turns[job.key] + self._demand(job)
        return turns

    def _demand(self, job: JobState) -> float:
        """The dominant share of what the job asks for and does not hold; of minResources where it has no pods yet."""
        registry, record = self.session.registry, job.record
        asked = aligned(record.request, registry)
        if record.min_resources is not None:
            asked = np.maximum(asked, aligned(record.min_resources, registry))
        return dominant_share(np.maximum(asked - aligned(record.allocated, registry), 0).tolist(), self.total)
