"""The gate in front of Inqueue, asked once for jobs of the same shape instead of once per job."""

from __future__ import annotations

from unisono.engine.answers import Refusal
from unisono.engine.plugin_host.combined_answers import Hooks
from unisono.engine.plugin_host.heap import Heap
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause


class Admission:
    """Asks plug-ins whether jobs may become Inqueue, and tells them of those that did.

    A refusal holds for every job of that shape until somebody is admitted. When the plug-ins say how many jobs of a
    shape they would let pass, so many pass unasked, and the plug-ins hear of them together, before the next question.
    """

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self._refused: dict[int, Refusal] = {}
        self._first: JobState | None = None
        self._left = 0
        self._passed = 0

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
        if refusal is not None:
            by_shape = bool(job.shape) and self.hooks.by_shape("enqueueable")
            if by_shape and refusal.cause is not Cause.PLUGIN_FAILED:
                self._refused[job.shape] = refusal
            return refusal
        if job.shape:
            self._left = self.hooks.admissible(job)
        self._first = job
        return self._admit(job)

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
        self._refused.clear()
        self.hooks.enqueued(job)
        failure = self.hooks.guard.out.get(job.key)
        return failure.refusal() if failure is not None else None

    def settle(self) -> None:
        """Tell the plug-ins what they have not heard yet."""
        if self._first is not None and self._passed:
            self.hooks.enqueued_alike(self._first, self._passed)
        self._first, self._passed, self._left = None, 0, 0
