"""What the admission gates of queues and of the cluster say to users: which limit, how much, who holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from unisono.api.resources import readable
from unisono.api.verdict import job_name
from unisono.engine.answers import Refusal
from unisono.engine.changes import amounts_text, by_importance, listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.session.job_state import JobState
from unisono.engine.verdict import Holder

_MOST_HOLDERS = 3


def capability_message(cycle: Cycle, job: JobState, refusal: Refusal) -> str:
    """Which queue of the chain binds, what it may hold and what of that is taken."""
    name = refusal.owner or job.queue.name
    queue = cycle.session.queues.get(name)
    short = [each for each in refusal.need if each in refusal.limit]
    taken = {each: refusal.have.get(each, 0) for each in short}
    most = amounts_text({each: refusal.limit[each] for each in short})
    asked = amounts_text({each: refusal.need[each] for each in short})
    capability = (queue.record.capability or {}) if queue is not None else {}
    limit = f"has capability {most}" if all(each in capability for each in short) else f"may hold {most}"
    told = f"queue {name} {limit}, {_taken(taken)}; {asked} is asked for"
    reserved = _guarantees(cycle, name, short) if not capability else ""
    return f"{told}{reserved}"


def _taken(taken: Mapping[str, int]) -> str:
    return f"{amounts_text(taken)} of it is in use or promised" if any(taken.values()) else "none of it is in use"


def _guarantees(cycle: Cycle, name: str, short: Iterable[str]) -> str:
    """Other queues' guarantees, which make the rest smaller."""
    found = []
    for other in cycle.session.queues.values():
        kept = {each: amount for each in short if (amount := (other.record.guarantee or {}).get(each, 0))}
        if kept and other.name != name:
            found.append(f"{amounts_text(kept)} is the guarantee of queue {other.name}")
    return "".join(f"; {text}" for text in found[:_MOST_HOLDERS])


def cluster_message(cycle: Cycle, refusal: Refusal) -> tuple[str, dict[str, int], tuple[Holder, ...]]:
    """What the cluster lacks of what a gang asks for: the sentence, what is free, and the jobs that hold most.

    Nodes that are cordoned or not ready come before shortage; no number includes the factor of the gate.
    """
    nodes, registry = cycle.session.nodes, cycle.session.registry
    names = sorted(refusal.need, key=by_importance)
    rows = [registry.requested(name) for name in names]
    usable = nodes.table.ready & ~nodes.table.unschedulable
    idle = np.maximum(nodes.idle[rows], 0)
    free = dict(zip(names, (idle * usable).sum(axis=1).tolist(), strict=True))
    there = dict(zip(names, (nodes.allocatable[rows] * usable).sum(axis=1).tolist(), strict=True))
    lacking = [name for name in names if free[name] < refusal.need[name]]
    short = lacking or names
    asked = amounts_text({name: refusal.need[name] for name in short})
    parts = _out_of_sight(cycle, rows)
    holders = _jobs_with(cycle, short)
    if any(refusal.need[name] > there[name] for name in short):
        parts.append(f"{asked} is asked for, and all usable nodes together have {amounts_text(_of(there, short))}")
    else:
        parts.append(f"{asked} is asked for, and {_free(free, there, short)}")
        if not lacking:
            promised = amounts_text({name: refusal.have.get(name, 0) for name in short})
            parts.append(f"{promised} is promised to jobs that were admitted before it")
        parts += [f"{one.name} holds {amounts_text(dict(one.amounts))}" for one in holders]
    return "; ".join(parts), _of(free, short), holders


def _of(amounts: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: int(amounts[name]) for name in names}


def _free(free: Mapping[str, int], there: Mapping[str, int], names: Iterable[str]) -> str:
    told, whole = readable(_of(free, names), "down"), readable(_of(there, names), "down")
    return ", ".join(f"{name} {told[name]} of {whole[name]}" for name in told) + " is free"


def _out_of_sight(cycle: Cycle, rows: list[int]) -> list[str]:
    """``2 of 3 nodes are cordoned (a and b)``, of nodes that have what is asked for."""
    nodes = cycle.session.nodes
    table, has = nodes.table, (nodes.allocatable[rows] > 0).all(axis=0)
    parts = []
    for mask, word in ((~table.ready, "not ready"), (table.ready & table.unschedulable, "cordoned")):
        away = np.flatnonzero(mask & has)
        if away.size:
            are = "is" if away.size == 1 else "are"
            which = listed(tuple(table.names[index] for index in away.tolist()))
            parts.append(f"{away.size} of {int(has.sum())} nodes {are} {word} ({which})")
    return parts


def _jobs_with(cycle: Cycle, names: Iterable[str]) -> tuple[Holder, ...]:
    """Jobs that hold most of the first resource, the largest first."""
    registry = cycle.session.registry
    rows = {name: registry.requested(name) for name in names}
    first = next(iter(rows.values()))
    holding = sorted(
        (job for job in cycle.jobs if job.allocated[first] > 0), key=lambda job: (-int(job.allocated[first]), job.key)
    )
    return tuple(
        Holder("Job", job_name(job.key), {name: int(job.allocated[row]) for name, row in rows.items()})
        for job in holding[:_MOST_HOLDERS]
    )
