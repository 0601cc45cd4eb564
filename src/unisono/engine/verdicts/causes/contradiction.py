"""minResources ask for more than the pods do."""

from __future__ import annotations

from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.limits import LIMITS
from unisono.engine.verdicts.shortage import contradiction
from unisono.engine.verdicts.waiting import Waiting


def too_much_stated(waiting: Waiting) -> Draft | None:
    """A limit refuses amounts that no pod asks for."""
    refusal = waiting.report.gate
    if refusal is None or refusal.cause not in LIMITS:
        return None
    found = contradiction(waiting.cycle, waiting.job, waiting.kinds, refusal.need)
    if found is None:
        return None
    message, last = found
    free = {name: max(limit - refusal.have.get(name, 0), 0) for name, limit in refusal.limit.items()}
    verdict = waiting.verdict(
        refusal.cause,
        message,
        need=dict(refusal.need),
        have=free or dict(refusal.have),
        tasks_placeable=waiting.placeable,
        holders=waiting.tools.holders(refusal.need),
    )
    return Draft(verdict, last=last)
