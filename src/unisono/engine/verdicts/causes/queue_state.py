"""Its queue admits nothing: it is closed, or its place in the tree is wrong."""

from __future__ import annotations

from unisono.engine.changes import OpenQueue
from unisono.engine.verdict import Cause
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.waiting import Waiting

_WAYS_OUT = {
    Cause.QUEUE_CLOSED: "submit to another one",
    Cause.NOT_TRIED: "wait for that job, or set dequeueStrategy: traverse of the queue",
    Cause.QUEUE_INVALID: "submit to another queue, or correct this one's place in the tree",
}


def closed(waiting: Waiting) -> Draft | None:
    """The state of the queue refuses everything."""
    refusal = waiting.report.gate or waiting.report.quota
    if refusal is None or refusal.cause not in _WAYS_OUT:
        return None
    message, above = refusal.message, _uppermost(waiting)
    if refusal.cause is Cause.QUEUE_CLOSED and above != waiting.job.queue.name:
        message += f"; it was closed with queue {above}"
    verdict = waiting.verdict(refusal.cause, message, tasks_placeable=waiting.placeable)
    opened: Ladders = [[OpenQueue(above)]] if refusal.cause is Cause.QUEUE_CLOSED else []
    besides = candidates.for_kinds(waiting) if opened else []
    return Draft(verdict, opened, last=_WAYS_OUT[refusal.cause], besides=besides)


def _uppermost(waiting: Waiting) -> str:
    """The closed queue that closes the others: a parent closes its children, and opens them again."""
    queues, at = waiting.cycle.session.queues, waiting.job.queue
    for _ in queues:
        parent = queues.get(at.record.parent)
        if parent is None or not parent.closed:
            break
        at = parent
    return at.name
