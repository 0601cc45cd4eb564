"""Its queue admits nothing: it is closed, or its place in the tree is wrong."""

from __future__ import annotations

from unisono.engine.changes import Change, OpenQueue, PassOver
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.job_holders import holder_of, named
from unisono.engine.verdicts.waiting import Waiting
from unisono.engine.verdicts.what_else import what_else

_WAYS_OUT = {
    Cause.QUEUE_CLOSED: "submit to another one",
    Cause.NOT_TRIED: "wait for that job",
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
    if refusal.cause is Cause.NOT_TRIED and (head := waiting.cycle.heads.get(waiting.job.queue.name)) is not None:
        holder = holder_of(head.record)
        who = f"job {named(holder)}" if holder.kind == "Job" else named(holder)
        message = f"{who} comes first in queue {head.queue.name}, whose dequeueStrategy is fifo, and cannot start yet"
    verdict = waiting.verdict(refusal.cause, message, tasks_placeable=waiting.placeable)
    ways: dict[Cause, Change] = {
        Cause.QUEUE_CLOSED: OpenQueue(above),
        Cause.NOT_TRIED: PassOver(waiting.job.queue.name),
    }
    ladders: Ladders = [[ways[refusal.cause]]] if refusal.cause in ways else []
    besides = what_else(waiting) if ladders else []
    return Draft(verdict, ladders, last=_WAYS_OUT[refusal.cause], besides=besides)


def _uppermost(waiting: Waiting) -> str:
    """The closed queue that closes the others: a parent closes its children, and opens them again."""
    queues, at = waiting.cycle.session.queues, waiting.job.queue
    for _ in queues:
        parent = queues.get(at.record.parent)
        if parent is None or not parent.closed:
            break
        at = parent
    return at.name
