"""minResources ask for more than the pods do."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.engine.changes import SetMinResources
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
    message, right = found
    stated = waiting.job.record.min_amounts or {}
    verdict = waiting.verdict(
        refusal.cause,
        message,
        need={name: stated[name] for name in right},
        have=_free(waiting, right),
        tasks_placeable=waiting.placeable,
        holders=waiting.tools.holders(refusal.need),
    )
    return Draft(verdict, [[SetMinResources(right)]])


def _free(waiting: Waiting, names: Iterable[str]) -> dict[str, int]:
    """What usable nodes have free."""
    nodes, registry = waiting.cycle.session.nodes, waiting.cycle.session.registry
    usable = nodes.table.ready & ~nodes.table.unschedulable
    return {name: int((nodes.idle[registry.requested(name)].clip(min=0) * usable).sum()) for name in names}
