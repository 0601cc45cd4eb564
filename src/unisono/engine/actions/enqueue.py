"""enqueue: admits pending PodGroups, so that their pods are created."""

from __future__ import annotations

import numpy as np

from unisono.api.core import Container, PodSpec, ResourceRequirements
from unisono.api.resources import to_wire
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import PODS
from unisono.engine.answers import BoolArray, Purpose, Refusal
from unisono.engine.cycle import strict_order
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.search import Evictions, evictions_of
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.orders import Heap
from unisono.engine.session.book import Evictable, View
from unisono.engine.session.budgets import spendings_of, used_up
from unisono.engine.session.job_state import JobState
from unisono.engine.session.limit import listed
from unisono.engine.session.queue_limits import closed
from unisono.engine.verdict import Cause

# The gate in front of Inqueue, asked once for jobs of the same shape instead of once per job.

# What evictions could free for a job that waits for admission, so that gates do not keep it from preempting.
#
# An upper bound: which pods are evicted is decided when the job has pods. A job whose evictions then turn out to be
# impossible waits as an admitted one.

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
        """What could go for the job: pods of jobs of lower priority in its queue, and what other queues owe it.

        With it what leaves already: it is promised to others, and in use until it has gone. It is in no queue.
        """
        evictable = Evictable()
        for purpose in self._in_queue:
            evictable = evictable.or_more(self._freeable(job, purpose))
        if self._between and self._may_reclaim(job):
            for purpose in self._between:
                evictable = evictable.or_more(self._freeable(job, purpose))
        return evictable.or_more(self._cycle.session.book.soon_free) if evictable else evictable

    def _may_reclaim(self, job: JobState) -> bool:
        hooks, queue = self._cycle.hooks, job.queue
        if hooks.overused(queue) is not None:
            return False
        return hooks.first("preemptive", queue, [self.request(job)]) is None

    def request(self, job: JobState) -> PodClass:
        """All that the job asks for, as one pod."""
        asked = job.asks
        key = b"" if asked is None else asked.tobytes()
        pod_class = self._requests.get(key)
        if pod_class is None:
            registry = self._cycle.session.registry
            amounts = [] if asked is None else asked.tolist()
            each = to_wire({registry.names[row]: each for row, each in enumerate(amounts) if each and row != PODS})
            container = Container(name="all", resources=ResourceRequirements(requests=dict(each)))
            number = -2 - len(self._requests)
            pod_class = self._requests[key] = PodClass(number, PodSpec(containers=[container]), registry)
        return pod_class

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
        evictable = self._known.get(key)
        if evictable is None:
            queues = [
                (q is job.queue) if within else (q is not job.queue and q.record.reclaimable) for q in jobs.queues
            ]
            chosen = (bound & np.array(queues, dtype=np.bool_)[jobs.queue])[evictions.index.job]
            evictable = self._known[key] = self._sums(evictions, chosen, purpose, within=within)
        return evictable

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
        share_metrics = session.book.shares.metrics_of
        shares = share_metrics(session.queues[queue]) if share_metrics is not None else None
        if shares is None:
            return amounts
        held = session.queues[queue].claimed.tolist()
        rows = zip(amounts, held, shares.deserved, strict=False)
        return [min(amount, max(mine - share, 0)) if share > 0 else amount for amount, mine, share in rows]


_FOR_WANT_OF_ROOM = (Cause.CLUSTER_OVERCOMMITTED, Cause.OVER_CAPABILITY, Cause.OVER_SHARE)


class Admission:
    """Asks plug-ins whether jobs may become Inqueue, and tells them of those that did.

    A refusal holds for every job of that shape until a job is admitted. When the plug-ins say how many jobs of a
    shape they would let pass, so many pass unasked, and the plug-ins hear of them together, before the next question.
    A job that the gate refuses for want of room is let in all the same where it would fit now (`Book.tries`), where
    jobs of its queue that come after it were promised as much, or where evictions for it could make that room:
    otherwise it would have no pods, and nothing would ever be tried for it.
    """

    def __init__(self, cycle: Cycle) -> None:
        self.session = cycle.session
        self.hooks: CombinedAnswers = cycle.hooks
        self.budgets = spendings_of(cycle.session) is not None
        self._room = AdmissionRoom(cycle)
        self._served: set[str] = set()
        self._refused: dict[int, Refusal] = {}
        self._first: JobState | None = None
        self._left = 0
        self._passed = 0
        self._trying = False
        self.moves = 0

    def ask(self, job: JobState) -> Refusal | None:
        """A refusal, or None when the job is in; only for jobs that state minResources."""
        first = self._first
        if first is not None and self._left > 0 and job.shape == first.shape:
            return self._admit(job)
        shared = self._refused.get(job.shape) if job.shape else None
        if shared is not None:
            return shared
        self.settle()
        refusal = self.hooks.vote("enqueueable", job)
        if refusal is not None and refusal.cause in _FOR_WANT_OF_ROOM:
            now = self._refusal_now(job)
            if self._trying or self._opens_before_others(job) or self._opens_by_evictions(job):
                self._first = job
                return self._admit(job)
            refusal = now or refusal  # what is held counts for more than what was promised and is not used
        if refusal is not None:
            by_shape = bool(job.shape) and self.hooks.by_shape("enqueueable")
            if by_shape and refusal.cause is not Cause.PLUGIN_FAILED:
                self._refused[job.shape] = refusal
            return refusal
        if job.shape:
            self._left = self.hooks.admissible(job)
        self._first = job
        return self._admit(job)

    def refusal_of_shape(self, job: JobState) -> Refusal | None:
        """What was said of another job of the same shape, and holds for all of them now; None: the job is asked about.

        It holds no place, as one that does is judged by itself.
        """
        return self._refused.get(job.shape) if job.shape and not job.ready_count else None

    def _refusal_now(self, job: JobState) -> Refusal | None:
        """Why the job may not try its luck with what is free now; with none, find how many of its shape may."""
        number = self.session.book.tries(job)
        self.session.book.view = View.NOW
        try:
            refusal = self.hooks.vote("enqueueable", job)
            self._trying = refusal is None and number > 0
            if self._trying:
                self._left = min(number, self.hooks.admissible(job)) if job.shape else 0
            elif refusal is None and not self.session.book.waits_in_vain(job):  # the share of its queue does not let it
                return self.hooks.allocatable(job.queue, self._room.request(job))
            return refusal
        finally:
            self.session.book.view = View.ALL

    def _opens_before_others(self, job: JobState) -> bool:
        """Whether the gate lets the job in with room that jobs of its queue wait for which come after it."""
        book = self.session.book
        if job.asks is None or not book.gives_way(job):
            return False
        # Nothing new is promised: what it asks for is waited for already, by others.
        promised = zip(listed(job.asks, self.session.registry), book.promised_everywhere(), strict=True)
        return self._opens_without(job, Evictable({job.queue.name: [own + others for own, others in promised]}))

    def _opens_by_evictions(self, job: JobState) -> bool:
        """Whether the gate lets the job in once those are gone that it could have evicted.

        One job of a queue in a cycle: what is evicted for it is known before the next one is asked about.
        """
        if not self._room or job.queue.name in self._served:
            return False
        return self._opens_without(job, self._room.of(job))

    def _opens_without(self, job: JobState, evictable: Evictable) -> bool:
        """Whether the gate lets the job in where these amounts do not count."""
        if not evictable:
            return False
        self.session.book.evictable = evictable
        try:
            return self.hooks.vote("enqueueable", job) is None
        finally:
            self.session.book.evictable = Evictable()

    def admit_like(self, job: JobState, jobs: Heap[JobState]) -> int:
        """Admit those jobs behind ``job`` in the order that pass unasked because it did; how many that were."""
        if self._left <= 0 or job is not self._first:
            return 0
        passed = jobs.ahead(lambda other: other.shape == job.shape, self._left)
        for other in passed:
            if self._admit(other) is None:
                other.phase = "Inqueue"
        return len(passed)

    def _admit(self, job: JobState) -> Refusal | None:
        """A refusal where a plug-in failed to note the job."""
        self._left -= 1
        self._passed += 1
        self.moves += 1
        self._refused.clear()
        self._served.add(job.queue.name)
        self.hooks.enqueued(job)
        failure = self.hooks.guard.out.get(job.key)
        return failure.refusal() if failure is not None else None

    def settle(self) -> None:
        """Write down what was promised, and tell the plug-ins what they have not heard yet."""
        if self._first is not None and self._passed:
            self.moves += 1
            self.session.book.promise(self._first, self._passed, trying=self._trying)
            self.hooks.enqueued_alike(self._first, self._passed)
        self._first, self._passed, self._left, self._trying = None, 0, 0, False


def run(cycle: Cycle) -> None:
    """Ask the gates about each Pending job, queue by queue and job by job in order.

    A refused job is passed over, and the next one of its queue is asked, unless the queue keeps strict order.
    """
    waiting: dict[str, list[JobState]] = {}
    for job in cycle.eligible:
        if job.phase == "Pending":
            waiting.setdefault(job.queue.name, []).append(job)
    heaps: dict[str, Heap[JobState]] = {name: cycle.orders.jobs(jobs) for name, jobs in waiting.items()}
    queues = cycle.orders.queues(cycle.session.queues[name] for name in heaps)
    gate = Admission(cycle)
    while len(queues):
        queue = queues.pop()
        jobs = heaps[queue.name]
        while len(jobs):
            job, moves = jobs.pop(), gate.moves
            _ask(cycle, gate, job)
            if job.phase == "Pending" and not queue.closed and strict_order.stopped(cycle, queue, job, jobs):
                jobs = heaps[queue.name] = Heap(cycle.orders.job_key)
                break
            if not len(queues):
                jobs.drop(gate.admit_like(job, jobs))
            if gate.moves != moves:
                if len(queues) and not queues.leads(queue):
                    break
            elif job.phase == "Pending" and not queue.record.fifo:  # the queue is the first in order as before
                _refuse_like(cycle, gate, jobs)
        if len(jobs):
            queues.push(queue)
    gate.settle()


def _ask(cycle: Cycle, gate: Admission, job: JobState) -> None:
    if job.has_started:  # it holds its minimum: its new phase is still on its way
        job.phase = "Inqueue"
        return
    refusal = closed(job.queue) or (used_up(job) if gate.budgets else None)
    if refusal is None and job.min_resources is not None and not _admitted_before(job):
        refusal = gate.ask(job)
    if refusal is not None:
        cycle.report(job).gate = refusal
        return
    job.phase = "Inqueue"


def _refuse_like(cycle: Cycle, gate: Admission, jobs: Heap[JobState]) -> None:
    """Pass over the jobs that come next as long as each is of a shape that the gate refuses now."""

    def refused(job: JobState) -> bool:
        refusal = gate.refusal_of_shape(job)
        if refusal is None:
            return False
        cycle.report(job).gate = refusal
        return True

    jobs.take_while(refused)


def _admitted_before(job: JobState) -> bool:
    """Whether its pods hold resources. Pods without requests are placed without admission, and say nothing."""
    return job.ready_count > 0 and bool(np.delete(job.allocated, PODS).any())
