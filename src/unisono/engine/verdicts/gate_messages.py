"""What a queue's limit says to users: which queue of the tree, how much it may hold, who holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from unisono.engine.answers import Refusal
from unisono.engine.changes import amounts_text
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Holder
from unisono.engine.verdicts.holders import holders_text
from unisono.engine.verdicts.kept_pods import not_evicted
from unisono.engine.verdicts.limits import binding_queue, guarantees_of_others
from unisono.engine.verdicts.lines import place_in_line

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
    told = f"queue {name} has capability {most}" if whole else f"queue {name} may hold {most}"
    if stated and not whole:  # others have a guarantee of the rest
        most_above = amounts_text({each: capability[each] for each in short})
        told = f"queue {job.queue.name} may hold {most} of the {most_above} that are the capability of queue {name}"
    told = f"{told}, {_taken(taken)}; {asked} is asked for"
    reserved = "" if whole else _guarantees(cycle, job, short)
    text, holders, jobs = holders_text(cycle, job, short[0], name) if short else ("", (), [])
    kept = not_evicted(cycle, job, jobs, short[0]) if jobs else ""
    rest = [one for one in (text, kept, place_in_line(cycle, job)) if one]
    return "; ".join([f"{told}{reserved}", *rest]), holders


def _taken(taken: Mapping[str, int]) -> str:
    return f"{amounts_text(taken)} of it is in use or promised" if any(taken.values()) else "none of it is in use"


def _guarantees(cycle: Cycle, job: JobState, short: Iterable[str]) -> str:
    """Other queues' guarantees, which make the rest smaller."""
    found = [
        f"{amounts_text(kept)} is the guarantee of queue {name}"
        for name, kept in guarantees_of_others(cycle.session, job, short)
    ]
    return "".join(f"; {text}" for text in found[:_MOST_HOLDERS])
