"""Pods that the gang needs have scheduling gates, or name a node that is going to refuse them."""

from __future__ import annotations

from unisono.api.messages import plural
from unisono.engine.changes import listed
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.claim_causes import absent_claims, ways_out
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.pending_pods import pending_pods
from unisono.engine.verdicts.waiting import Waiting


def gated(waiting: Waiting) -> Draft | None:
    """Without the gated pods there is nothing to place, or not the whole gang."""
    job, number = waiting.job, pending_pods(waiting.job.record).gated
    if not number or (number < waiting.pending and job.valid_count - number >= job.min_member):
        return None
    named = sorted({task.named_node for task in job.record.pending.values() if task.named_node})
    if named:
        number = sum(bool(task.named_node) for task in job.record.pending.values())
        who, it = ("pod names its node", "it") if number == 1 else ("pods name their nodes", "them")
        text = f"{number} {who} in spec.nodeName: {named[0]} does not exist or has no room for {it}"
    else:
        names = tuple(sorted(task.name for task in job.record.pending.values() if task.gated))
        gates = tuple(sorted({gate for task in job.record.pending.values() for gate in task.gates}))
        which = f"the scheduling {plural(len(gates), 'gate')} {listed(gates)}" if gates else "scheduling gates"
        text = f"{plural(number, 'pod')} {listed(names)} {'has' if number == 1 else 'have'} {which}"
    lacks = [lack for task in waiting.samples for lack in absent_claims(waiting.cycle, task.pod_class)]
    claims = f". Besides, {lacks[0].text}" if lacks else ""
    tried, _ = ways_out(waiting.cycle, lacks)
    verdict = waiting.verdict(Cause.GATED, f"{text}{claims}")

    return Draft(verdict, [*candidates.for_gates(job), *tried])
