"""Refusals that tell only a part: of one pod instead of the gang, of the job's own queue instead of the one that binds.

One that came while a gang was placed counts the pods that had a place by then, and speaks of the next one.
"""

from __future__ import annotations

from dataclasses import replace

from unisono.engine.answers import Refusal
from unisono.engine.changes import amounts_text
from unisono.engine.verdict import Cause
from unisono.engine.verdicts.limits import LIMITS, binding_queue
from unisono.engine.verdicts.waiting import Waiting


def of_whole_gang(waiting: Waiting, refusal: Refusal) -> Refusal:
    """The same refusal with what the queue holds now that those places are given up, and what the whole gang asks for.

    The refusal as it is where it counts no places of the gang, or where that is not known.
    """
    if refusal.user or refusal.cause not in LIMITS or not refusal.limit or not waiting.kinds:
        return refusal
    session, job = waiting.cycle.session, waiting.job
    name = binding_queue(session, job, refusal)
    limit = next((one for one in job.queue.limits if one.name == name), None)
    if limit is None and name != job.queue.name:
        return refusal
    held = limit.held if limit is not None and refusal.cause is Cause.OVER_CAPABILITY else job.queue.claimed
    have = {each: int(held[row]) for each in refusal.limit if (row := session.registry.find(each)) is not None}
    need = {each: _asked(waiting, each) for each in refusal.limit}
    counted = any(have.get(each) != amount for each, amount in refusal.have.items())
    if not counted and need == refusal.need:
        return refusal
    if not any(have.get(each, 0) + need[each] > most for each, most in refusal.limit.items()):
        return refusal
    told = [amounts_text({each: amounts.get(each, 0) for each in need}) for amounts in (refusal.limit, have, need)]
    message = f"queue {name} may hold {told[0]} and holds {told[1]}; {told[2]} more is asked for"
    return replace(refusal, message=message, need=need, have=have)


def of_binding_queue(waiting: Waiting, refusal: Refusal) -> Refusal:
    """The same refusal with what is held below the queue whose capability the job's own queue inherits."""
    if refusal.user or refusal.cause is not Cause.OVER_CAPABILITY or not refusal.limit:
        return refusal
    session, job = waiting.cycle.session, waiting.job
    name = binding_queue(session, job, refusal)
    limit = next((one for one in job.queue.limits if one.name == name), None)
    if limit is None or name == (refusal.owner or job.queue.name):
        return refusal
    rows = {each: row for each in refusal.limit if (row := session.registry.find(each)) is not None}
    if any(limit.most.get(row) != refusal.limit[each] for each, row in rows.items()):  # others' guarantees are less
        return refusal
    held = {each: max(int(limit.held[row]), refusal.have.get(each, 0)) for each, row in rows.items()}
    return replace(refusal, owner=name, have=held)


def _asked(waiting: Waiting, name: str) -> int:
    """What those pods ask for that the gang lacks, or all that wait once it has its minimum."""
    kinds, job = waiting.kinds, waiting.job
    missing = job.min_member - job.ready_count
    amounts = [kind.count * (1 if name == "pods" else kind.requests.get(name, 0)) for kind in kinds]
    if len(kinds) == 1 and 0 < missing < kinds[0].count:
        return amounts[0] * missing // kinds[0].count
    return sum(amounts)
