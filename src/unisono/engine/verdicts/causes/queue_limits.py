"""A limit of the queue tree or of the namespace: which one, who takes it, by how much it is exceeded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from unisono.api.resources import amounts_text
from unisono.engine.answers import Refusal
from unisono.engine.changes import Change, RaiseCapability, RaiseUserLimits, Together
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Cause, Holder
from unisono.engine.verdicts import candidates
from unisono.engine.verdicts.draft import Draft
from unisono.engine.verdicts.holders import holders_text
from unisono.engine.verdicts.kept_nodes import numbers_for_a_time
from unisono.engine.verdicts.kept_pods import not_evicted
from unisono.engine.verdicts.limits import LIMITS, binding_queue, chain, guarantees_of_others, left
from unisono.engine.verdicts.lines import place_in_line
from unisono.engine.verdicts.missing_resources import asked_text, remedy, unoffered
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
    need = {each: waiting.asks(each) for each in refusal.limit}
    counted = any(have.get(each) != amount for each, amount in refusal.have.items())
    if not counted and need == refusal.need:
        return refusal
    if not any(have.get(each, 0) + need[each] > most for each, most in refusal.limit.items()):
        return refusal
    texts = [amounts_text({each: amounts.get(each, 0) for each in need}) for amounts in (refusal.limit, have, need)]
    message = f"queue {name} may hold {texts[0]} and holds {texts[1]}; {texts[2]} more is asked for"
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


def refused_admission(waiting: Waiting) -> Draft | None:
    """Enqueue refuses the whole gang."""
    refusal = waiting.report.gate
    return _refused(waiting, of_binding_queue(waiting, refusal) if refusal is not None else None)


def refused_tasks(waiting: Waiting) -> Draft | None:
    """Allocate refuses one of its tasks."""
    refusal = waiting.report.quota
    if refusal is None:
        return None
    whole, missing = of_whole_gang(waiting, refusal), waiting.job.min_member - waiting.job.ready_count
    return _refused(waiting, whole, max(missing, 1) if whole is not refusal else 1)


def _refused(waiting: Waiting, refusal: Refusal | None, pods: int = 0) -> Draft | None:
    if refusal is None:
        return None
    cycle, job, free = waiting.cycle, waiting.job, left(refusal)
    message, holders = refusal.message, waiting.tools.holders(refusal.need)
    ladders = candidates.for_refusal(cycle, job, refusal, waiting.tools.rivals, pods)
    ladders = [_whole(waiting, ladder) for ladder in ladders]
    named = refusal.user or refusal.cause is Cause.QUOTA  # by names that need not be those of resources
    nowhere = [] if named else unoffered(cycle, (name for name in refusal.need if free.get(name) == 0))
    last = ""
    if nowhere:
        message = asked_text(cycle, refusal.need, nowhere, waiting.kinds)
    elif refusal.user:
        last = "wait for other jobs of the same user"
    elif refusal.cause is Cause.OVER_CAPABILITY and refusal.limit:
        message, holders = capability_message(cycle, job, refusal)
    elif refusal.need and refusal.limit and refusal.cause is not Cause.OVER_SHARE:
        message += f" (asks for {amounts_text(refusal.need)}; {amounts_text(free) or 'nothing'} is left)"
    for_a_time = numbers_for_a_time(cycle, job) if refusal.cause in LIMITS else ""
    verdict = waiting.verdict(
        refusal.cause,
        f"{message}; {for_a_time}" if for_a_time else message,
        need=dict(refusal.need),
        have=free or dict(refusal.have),
        tasks_placeable=waiting.placeable,
        holders=holders,
    )
    if nowhere:
        meant = candidates.meant_resources(cycle, nowhere)
        return Draft(verdict, [*meant, *ladders], last=remedy(cycle, nowhere), necessary=bool(meant))
    shared = refusal.cause is Cause.OVER_SHARE
    first = f"wait for other jobs of queue {job.queue.name}" if shared else ""
    return Draft(verdict, ladders, first, last=last, evictions=shared)


def _whole(waiting: Waiting, ladder: list[Change]) -> list[Change]:
    """With what all pods that wait would exceed: a refusal that came from placing speaks of one of them."""
    first = ladder[0] if ladder else None
    if isinstance(first, RaiseUserLimits) and waiting.report.quota is not None:
        rest, need = max(waiting.pending - waiting.report.schedulable() - 1, 0), waiting.report.quota.need
        whole = {name: amount + need[name] * rest for name, amount in first.amounts.items()}
        return [first, RaiseUserLimits(first.queue, whole)]
    if not isinstance(first, RaiseCapability):
        return ladder
    return [first, *_capabilities(waiting), *ladder[1:]]


def _asked(waiting: Waiting) -> Mapping[str, int]:
    """What the pods that wait ask for, ``pods`` included."""
    asked: dict[str, int] = {"pods": 0}
    for kind in waiting.kinds:
        asked["pods"] += kind.count
        for name, amount in kind.requests.items():
            asked[name] = asked.get(name, 0) + amount * kind.count
    return asked if waiting.kinds else dict(waiting.job.record.min_amounts or {})


def _capabilities(waiting: Waiting) -> list[Change]:
    """Raise the capabilities that all pods that wait would exceed, of the job's queue and of those above it."""
    session, job, asked, raised = waiting.cycle.session, waiting.job, _asked(waiting), list[Change]()
    for name in chain(session, job.queue.name):
        limit = next((one for one in job.queue.limits if one.name == name), None)
        if limit is None:
            continue
        most = {session.registry.names[row]: (amount, int(limit.held[row])) for row, amount in limit.most.items()}
        short = {
            each: held + asked[each] - amount
            for each, (amount, held) in most.items()
            if asked.get(each) and held + asked[each] > amount
        }
        if short:
            raised.append(RaiseCapability(name, short))
    # The uppermost first: no queue may be given more than the one above it.
    return [raised[0] if len(raised) == 1 else Together(tuple(reversed(raised)))] if raised else []


# ---- what it says to users


_MOST_HOLDERS = 3


def capability_message(cycle: Cycle, job: JobState, refusal: Refusal) -> tuple[str, tuple[Holder, ...]]:
    """Which queue of the chain binds, what it may hold, what of that is taken, and by which jobs."""
    name = binding_queue(cycle.session, job, refusal)
    queue = cycle.session.queues.get(name)
    short = [each for each in refusal.need if each in refusal.limit]
    taken = {each: refusal.have.get(each, 0) for each in short}
    most = amounts_text({each: refusal.limit[each] for each in short})
    asked = amounts_text({each: refusal.need[each] for each in short})
    capability = (queue.record.capability or {}) if queue is not None else {}
    stated = all(each in capability for each in short)
    whole = stated and all(capability[each] <= refusal.limit[each] for each in short)
    sentence = f"queue {name} has capability {most}" if whole else f"queue {name} may hold {most}"
    if stated and not whole:  # others have a guarantee of the rest
        most_above = amounts_text({each: capability[each] for each in short})
        sentence = f"queue {job.queue.name} may hold {most} of the {most_above} that are the capability of queue {name}"
    sentence = f"{sentence}, {_taken(taken)}; {asked} is asked for"
    reserved = "" if whole else _guarantees(cycle, job, short)
    text, holders, jobs = holders_text(cycle, job, short[0], name) if short else ("", (), [])
    kept = not_evicted(cycle, job, jobs, short[0]) if jobs else ""
    rest = [one for one in (text, kept, place_in_line(cycle, job)) if one]
    return "; ".join([f"{sentence}{reserved}", *rest]), holders


def _taken(taken: Mapping[str, int]) -> str:
    return f"{amounts_text(taken)} of it is in use or promised" if any(taken.values()) else "none of it is in use"


def _guarantees(cycle: Cycle, job: JobState, short: Iterable[str]) -> str:
    """Other queues' guarantees, which make the rest smaller."""
    texts = [
        f"{amounts_text(kept)} is the guarantee of queue {name}"
        for name, kept in guarantees_of_others(cycle.session, job, short)
    ]
    return "".join(f"; {text}" for text in texts[:_MOST_HOLDERS])
