"""The cluster could hold the gang, but no domain that its topology allows."""

from __future__ import annotations

from unisono.engine.placement.domain_advice import Advice
from unisono.engine.placement.waiting_line import advice_of
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.domain_holders import domain_text
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.waiting import Waiting


def topology(waiting: Waiting) -> Draft | None:
    """Which domain comes closest, and who uses it."""
    job, cycle = waiting.job, waiting.cycle
    advice = advice_of(cycle).get(job.key)
    if advice is None:
        return None
    placeable = job.ready_count + min(advice.holds, advice.needed)
    text, holders = domain_text(cycle, job, advice)
    refused = _refused(waiting, advice) if not advice.domain else ""
    message = "; ".join(filter(None, (advice.message, text)))
    verdict = waiting.verdict(
        Cause.TOPOLOGY,
        f"{message}.{refused}" if refused else message,
        need={"pods": advice.needed},
        have={"pods": advice.holds},
        tasks_placeable=placeable,
        holders=holders,
        task=advice.task.key,
    )
    ladders = candidates.for_topology(cycle, job, placeable, advice.lost)
    if refused:
        ladders = [*candidates.unblocked(cycle, advice.task, max(advice.needed - advice.holds, 1)), *ladders]
    return Draft(verdict, ladders, last=advice.suggestion)


def _refused(waiting: Waiting, advice: Advice) -> str:
    """A sentence about what keeps the pods off nodes of its domains that might hold them."""
    fit = waiting.cycle.fits.errors(advice.task.pod_class)
    return waiting.tools.filters.text(advice.task.pod_class, fit, advice.task.namespace)
