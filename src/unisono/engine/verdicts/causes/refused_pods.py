"""A ResourceQuota lets the pods of the gang not be created."""

from __future__ import annotations

from unisono.engine.changes import Change, Together, amounts_text
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.causes.own_pods import no_pods_text
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.job_holders import named
from unisono.engine.verdicts.quotas import Shortage
from unisono.engine.verdicts.waiting import Waiting


def over_quota(waiting: Waiting) -> Draft | None:
    """The API server refuses pods that the gang needs, or would even if the cluster had room for them."""
    job, report, quotas = waiting.job, waiting.report, waiting.tools.quotas
    if report.gate is not None:
        if report.gate.cause is not Cause.CLUSTER_OVERCOMMITTED or job.size:
            return None
        short = quotas.shortages(job, job.min_member)
        return _draft(waiting, f"the PodGroup has no pods; {job.min_member} are needed", short, []) if short else None
    if job.size == 0:
        short = quotas.shortages(job, job.min_member)
        return _draft(waiting, no_pods_text(job.min_member), short, []) if short else None
    refusal = report.invalid
    if refusal is None or refusal.cause is not Cause.TOO_FEW_PODS:
        return None
    have, need = refusal.have.get("pods", job.valid_count), refusal.need.get("pods", job.min_member)
    short = quotas.shortages(job, need - have)
    if not short:
        return None
    return _draft(waiting, refusal.message, short, candidates.for_too_few(job, have, need)[1:])


def _draft(waiting: Waiting, message: str, short: list[Shortage], ladders: Ladders) -> Draft:
    first, changes = short[0], tuple(one.change for one in short)
    holders = waiting.tools.quotas.holders(waiting.job, first.need)
    held = ", ".join(f"{named(one)} holds {amounts_text(one.amounts)}" for one in holders)
    verdict = waiting.verdict(
        Cause.QUOTA,
        "; ".join(filter(None, [message, *(one.text() for one in short), held])),
        need=dict(first.need),
        have=first.left,
        tasks_placeable=waiting.job.valid_count,
        holders=holders,
    )
    raised: Change = changes[0] if len(changes) == 1 else Together(changes)
    if not waiting.job.size and not waiting.unmade:  # what its pods will ask for is not known
        return Draft(verdict, ladders, untried=(raised,))
    return Draft(verdict, [*ladders, [raised]])
