"""The gate in front of Inqueue, asked once for jobs of the same shape instead of once per job."""

from __future__ import annotations

from unisono.engine.answers import Refusal
from unisono.engine.cycle.context import Cycle
from unisono.engine.eviction.admission_room import AdmissionRoom
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.heap import Heap
from unisono.engine.session.book import Evictable, View
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause

_FOR_WANT_OF_ROOM = (Cause.CLUSTER_OVERCOMMITTED, Cause.OVER_CAPABILITY, Cause.OVER_SHARE)


class Admission:
    """Asks plug-ins whether jobs may become Inqueue, and tells them of those that did.

    A refusal holds for every job of that shape until a job is admitted. When the plug-ins say how many jobs of a
    shape they would let pass, so many pass unasked, and the plug-ins hear of them together, before the next question.
    A job that the gate refuses for want of room is let in all the same where it would fit now (`Book.tries`), or where
    evictions for it could make that room: otherwise it would have no pods, and nothing would ever be tried for it.
    """

    def __init__(self, cycle: Cycle) -> None:
        self.session = cycle.session
        self.hooks: CombinedAnswers = cycle.hooks
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
            self._trying = self._fits_now(job)
            if self._trying or self._opens_by_evictions(job):
                self._first = job
                return self._admit(job)
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

    def _fits_now(self, job: JobState) -> bool:
        """Whether the job, and how many more of its shape, may try their luck with what is free now."""
        number = self.session.book.tries(job)
        if number < 1:
            return False
        self.session.book.view = View.NOW
        try:
            if self.hooks.vote("enqueueable", job) is not None:
                return False
            self._left = min(number, self.hooks.admissible(job)) if job.shape else 0
            return True
        finally:
            self.session.book.view = View.ALL

    def _opens_by_evictions(self, job: JobState) -> bool:
        """Whether the gate lets the job in once those are gone that it could have evicted.

        One job of a queue in a cycle: what is evicted for it is known before the next one is asked about.
        """
        if not self._room or job.queue.name in self._served:
            return False
        evictable = self._room.of(job)
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
