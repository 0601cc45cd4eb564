"""What evictions could free for a job that waits for admission, so that gates do not keep it from preempting.

An upper bound: which pods are evicted is decided when the job has pods. A job whose evictions then turn out to be
impossible waits as an admitted one.
"""

from __future__ import annotations

import numpy as np

from unisono.api.core import Container, PodSpec, ResourceRequirements
from unisono.api.resources import to_wire
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS
from unisono.engine.answers import BoolArray, Purpose
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.search import Evictions, evictions_of
from unisono.engine.session.book import Evictable
from unisono.engine.session.job_state import JobState

_IN_QUEUE = {"preempt": Purpose.PREEMPT, "gangpreempt": Purpose.GANG_PREEMPT}
_BETWEEN_QUEUES = {"reclaim": Purpose.RECLAIM, "gangreclaim": Purpose.GANG_RECLAIM}


class AdmissionRoom:
    """Answers for the jobs of one cycle; nothing where the configuration has no action that evicts for others."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        actions = cycle.config.actions
        self._in_queue = [_IN_QUEUE[name] for name in actions if name in _IN_QUEUE]
        self._between = [_BETWEEN_QUEUES[name] for name in actions if name in _BETWEEN_QUEUES]
        self._known: dict[tuple[Purpose, str, bytes], Evictable] = {}
        self._requests: dict[bytes, PodClass] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to ask about."""
        return bool(self._in_queue or self._between)

    def of(self, job: JobState) -> Evictable:
        """What could go for the job: pods of jobs of lower priority in its queue, and what other queues owe it."""
        found = Evictable()
        for purpose in self._in_queue:
            found = found.or_more(self._freeable(job, purpose))
        if self._between and self._may_reclaim(job):
            for purpose in self._between:
                found = found.or_more(self._freeable(job, purpose))
        return found

    def _may_reclaim(self, job: JobState) -> bool:
        hooks, queue = self._cycle.hooks, job.queue
        if hooks.overused(queue) is not None:
            return False
        return hooks.first("preemptive", queue, [self._request(job)]) is None

    def _request(self, job: JobState) -> PodClass:
        """All that the job asks for, as one pod."""
        wanted = job.asks
        key = b"" if wanted is None else wanted.tobytes()
        found = self._requests.get(key)
        if found is None:
            registry = self._cycle.session.registry
            amounts = [] if wanted is None else wanted.tolist()
            each = to_wire({registry.names[row]: each for row, each in enumerate(amounts) if each and row != PODS})
            container = Container(name="all", resources=ResourceRequirements(requests=dict(each)))
            number = -2 - len(self._requests)
            found = self._requests[key] = PodClass(number, PodSpec(containers=[container]), registry)
        return found

    def _freeable(self, job: JobState, purpose: Purpose) -> Evictable:
        evictions = evictions_of(self._cycle)
        jobs = evictions.index.jobs
        if not len(jobs):
            return Evictable()
        bound = self._cycle.hooks.victim_jobs(job, None, jobs, purpose)
        within = purpose in self._in_queue
        if within:
            bound = bound & (jobs.priority < job.priority)
        key = purpose, job.queue.name, bound.tobytes()
        found = self._known.get(key)
        if found is None:
            queues = [
                (q is job.queue) if within else (q is not job.queue and q.record.reclaimable) for q in jobs.queues
            ]
            chosen = (bound & np.array(queues, dtype=np.bool_)[jobs.queue])[evictions.index.job]
            found = self._known[key] = self._sums(evictions, chosen, purpose, within=within)
        return found

    def _sums(self, evictions: Evictions, chosen: BoolArray, purpose: Purpose, *, within: bool) -> Evictable:
        index = evictions.index
        mask = chosen & index.alive & evictions.pool.unprotected(purpose)
        if not within:
            mask = mask & index.running
        totals = index.totals(mask)
        if not within:
            totals = {queue: self._beyond_share(queue, amounts) for queue, amounts in totals.items()}
        return Evictable(totals)

    def _beyond_share(self, queue: str, amounts: list[int]) -> list[int]:
        """No more than the queue holds beyond what it deserves."""
        session = self._cycle.session
        told = session.book.shares.metrics_of
        shares = told(session.queues[queue]) if told is not None else None
        if shares is None:
            return amounts
        held = session.queues[queue].claimed.tolist()
        rows = zip(amounts, held, shares.deserved, strict=False)
        return [min(amount, max(mine - share, 0)) if share > 0 else amount for amount, mine, share in rows]
