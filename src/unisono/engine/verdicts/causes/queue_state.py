"""Its queue does not take it: it is closed, not for everybody, wrongly placed, or another job comes first."""

from __future__ import annotations

from unisono.api.keys import CLOSED_BY_PARENT
from unisono.api.queues import Place, to_be_opened
from unisono.engine.changes import OpenQueue, PassOver, Together, UseQueue
from unisono.engine.verdict import Cause, reference
from unisono.engine.verdicts.draft import Draft, Ladders
from unisono.engine.verdicts.holders import holder_of, named
from unisono.engine.verdicts.waiting import Waiting

_MOST_LEAVES = 3
_WAYS_OUT = {
    Cause.QUEUE_CLOSED: "submit to another one",
    Cause.QUEUE_FORBIDDEN: "submit to a queue that is for you, or submit it again once you may use this one",
    Cause.QUEUE_INVALID: "submit to another queue, or correct this one's place in the tree",
}


def closed(waiting: Waiting) -> Draft | None:
    """The state of the queue refuses everything."""
    refusal = waiting.report.gate or waiting.report.quota
    if refusal is None or refusal.cause not in _WAYS_OUT:
        return None
    message, (above, *below) = refusal.message, _shut(waiting)
    if refusal.cause is Cause.QUEUE_CLOSED and above != waiting.job.queue.name:
        message += f"; queue {above} above it is closed as well" if below else f"; it was closed with queue {above}"
    verdict = waiting.verdict(refusal.cause, message, tasks_placeable=waiting.placeable)
    if refusal.cause is not Cause.QUEUE_CLOSED:
        return Draft(verdict, _leaves(waiting), last=_WAYS_OUT[refusal.cause])
    opened = tuple(OpenQueue(name) for name in (above, *below))
    change = Together(opened) if below else opened[0]
    return Draft(verdict, [[change]], last=_WAYS_OUT[refusal.cause])


def behind(waiting: Waiting) -> Draft | None:
    """The queue is served in order, and its first job cannot start; nothing else is known to be wrong with this one."""
    refusal, queue = waiting.report.gate, waiting.job.queue.name
    if refusal is None or refusal.cause is not Cause.NOT_TRIED:
        return None
    message, head = refusal.message, waiting.cycle.heads.get(queue)
    if head is not None:
        holder = holder_of(head.record)
        who = reference(holder.name, "job") if holder.kind == "Job" else named(holder)
        message = f"{who} comes first in queue {queue}, whose dequeueStrategy is fifo, and cannot start yet"
    verdict = waiting.verdict(refusal.cause, message, tasks_placeable=waiting.placeable)
    return Draft(verdict, [[PassOver(queue)]], last="wait for that job")


def _leaves(waiting: Waiting) -> Ladders:
    """Open queues below the job's own that take jobs, where that one takes none because of them."""
    queues, name = waiting.cycle.session.queues, waiting.job.queue.name
    parents = {queue.record.parent for queue in queues.values()}
    below = sorted(
        queue.name
        for queue in queues.values()
        if queue.record.parent == name and queue.name not in parents and queue.record.known and not queue.closed
    )
    return [[UseQueue(each)] for each in below[:_MOST_LEAVES]]


def _shut(waiting: Waiting) -> tuple[str, ...]:
    """The closed queues to open, the uppermost first."""
    records = waiting.cycle.session.queues.items()
    places = {
        name: Place(one.record.parent, one.closed, one.record.annotations.get(CLOSED_BY_PARENT) == "true")
        for name, one in records
    }
    return to_be_opened(waiting.job.queue.name, places.get)
