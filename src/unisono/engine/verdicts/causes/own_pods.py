"""The gang has too few pods, or contradicts itself."""

from __future__ import annotations

from functools import partial

from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Draft, later
from unisono.engine.verdicts.waiting import Waiting
from unisono.engine.verdicts.what_else import what_else


def no_pods_text(number: int) -> str:
    """``the PodGroup has no pods yet; 3 are needed``."""
    return f"the PodGroup has no pods yet; {number} {'is' if number == 1 else 'are'} needed"


def too_few(waiting: Waiting) -> Draft | None:
    """Its controller, or its maker, has not made enough pods; or a plug-in calls it invalid."""
    job, refusal = waiting.job, waiting.report.invalid
    gate = waiting.report.gate
    if gate is not None and (gate.cause is not Cause.NOT_TRIED or not job.size):
        return None
    if job.size and refusal is None:
        return None
    if job.size == 0:
        return waiting.simple(Cause.NO_PODS, no_pods_text(job.min_member), "create pods that name this PodGroup")
    assert refusal is not None
    have, need = refusal.have.get("pods", job.valid_count), refusal.need.get("pods", job.min_member)
    verdict = waiting.verdict(
        refusal.cause,
        refusal.message,
        need=dict(refusal.need),
        have=dict(refusal.have),
        tasks_placeable=job.valid_count,
    )
    return Draft(verdict, candidates.for_too_few(job, have, need), besides=later(partial(what_else, waiting)))
