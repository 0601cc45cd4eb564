"""A limit of the queue tree or of the namespace: which one, who takes it, by how much it is exceeded."""

from __future__ import annotations

from unisono.engine.answers import Refusal
from unisono.engine.changes import amounts_text
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.gate_messages import capability_message
from unisono.engine.verdicts.limits import left
from unisono.engine.verdicts.missing_resources import remedy, unoffered, unoffered_text
from unisono.engine.verdicts.waiting import Waiting


def refused_admission(waiting: Waiting) -> Draft | None:
    """Enqueue refuses the whole gang."""
    return _refused(waiting, waiting.report.gate)


def refused_tasks(waiting: Waiting) -> Draft | None:
    """Allocate refuses one of its tasks."""
    return _refused(waiting, waiting.report.quota)


def _refused(waiting: Waiting, refusal: Refusal | None) -> Draft | None:
    if refusal is None:
        return None
    cycle, job, free = waiting.cycle, waiting.job, left(refusal)
    message, holders = refusal.message, waiting.tools.holders(refusal.need)
    ladders = candidates.for_refusal(cycle, job, refusal, waiting.tools.rivals)
    nowhere = unoffered(cycle, (name for name in refusal.need if free.get(name) == 0))
    if nowhere:
        asked = amounts_text({name: refusal.need[name] for name in nowhere})
        message = f"{unoffered_text(cycle, nowhere)}; {asked} is asked for"
    elif refusal.cause is Cause.OVER_CAPABILITY and refusal.limit and refusal.event:
        message, holders = capability_message(cycle, job, refusal)
    elif refusal.need and refusal.limit and refusal.cause is not Cause.OVER_SHARE:
        message += f" (asks for {amounts_text(refusal.need)}; {amounts_text(free) or 'nothing'} is left)"
    verdict = waiting.verdict(
        refusal.cause,
        message,
        need=dict(refusal.need),
        have=free or dict(refusal.have),
        tasks_placeable=waiting.placeable,
        holders=holders,
    )
    if nowhere:
        return Draft(verdict, [*candidates.meant_resources(cycle, nowhere), *ladders], last=remedy(cycle, nowhere))
    shared = refusal.cause is Cause.OVER_SHARE
    first = f"wait for other jobs of queue {job.queue.name}" if shared else ""
    return Draft(verdict, ladders, first, evictions=shared, besides=candidates.for_kinds(waiting))
