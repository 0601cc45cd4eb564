"""Which machines are not needed any more (pure).

A machine may go when it is empty, or when all of its pods may move and have room elsewhere, and has been so for as long
as its pool says. Machines that a waiting gang is going to use are needed, and a pool keeps its minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from unisono.controllers.node_scaling.decide import Demand, Pool, Room, Trial, booting, serve

MOST_AT_ONCE = 10
"""Empty machines of one pool that are given back at a time."""
MOST_DRAINED = 1
"""Machines whose pods are moved at a time, in the whole cluster."""
_MOST_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class Held:
    """A node and what it holds.

    Attributes:
        name: of the node.
        pool: name of its pool; empty where none is known: it is never given back.
        room: what is free on it, as if it were a pool of one machine.
        movable: pods that may start again elsewhere.
        stays: why the machine may not go: a pod that must stay, or a wish of its owner; empty where it may.
        marked: it was chosen to go and takes no pods.

    """

    name: str
    pool: str
    room: Pool
    movable: tuple[Demand, ...] = ()
    stays: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Shrinking:
    """What to do with the nodes.

    Attributes:
        since: when each node that is not needed was first found so; to be handed in next time.
        mark: nodes that are to take no more pods.
        clear: marked nodes that are needed after all.
        drain: marked nodes whose pods are to move.
        remove: marked nodes that are empty.

    """

    since: Mapping[str, float] = field(default_factory=dict)
    mark: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


def shrinking(
    nodes: Sequence[Held],
    pools: Sequence[Pool],
    gangs: Iterable[Sequence[Demand]],
    since: Mapping[str, float],
    now: float,
    settled: Set[str] | None = None,
) -> Shrinking:
    """Decide which machines to give back.

    Args:
        nodes: all nodes that take pods, also those of no pool.
        pools: all pools; nodes without one are kept.
        gangs: for each waiting gang all of its pods without a place.
        since: ``since`` of the answer before.
        now: seconds since 1970.
        settled: names of the pools that may shrink now, None for all; of others the time goes on.

    """
    by_name = {pool.name: pool for pool in pools}
    unneeded = _unneeded(nodes, by_name, gangs)
    begun = {name: min(since.get(name, now), now) for name in unneeded}
    # A node that was marked has had its time; a new process does not begin to count again.
    due = [
        each
        for each in nodes
        if each.name in unneeded
        and (settled is None or each.pool in settled)
        and (each.marked or now - begun[each.name] >= by_name[each.pool].unneeded_seconds)
    ]
    left, moved, marked = dict[str, int](), 0, list[Held]()
    for each in sorted(due, key=lambda each: (not each.marked, len(each.movable), each.name)):
        if left.setdefault(each.pool, MOST_AT_ONCE) <= 0 or (each.movable and moved >= MOST_DRAINED):
            continue
        left[each.pool] -= 1
        moved += bool(each.movable)
        marked.append(each)
    return Shrinking(
        since=begun,
        mark=tuple(each.name for each in marked if not each.marked),
        clear=tuple(each.name for each in nodes if each.marked and each.name not in unneeded),
        drain=tuple(each.name for each in marked if each.marked and each.movable),
        remove=tuple(each.name for each in marked if each.marked and not each.movable),
    )


def _unneeded(nodes: Sequence[Held], pools: Mapping[str, Pool], gangs: Iterable[Sequence[Demand]]) -> set[str]:
    """Nodes that can all go together."""
    spare = {name: pool.replicas - pool.least for name, pool in pools.items() if pool.least is not None}
    # What must stay anyway is filled first, then the cheapest: the dearest machines are left over.
    ordered = sorted(nodes, key=lambda each: (_may_go(each, spare), _cost(each, pools), each.name))
    rooms_now = [Room(each.room, dict(each.room.offers)) for each in ordered]
    trial = Trial(tuple(pools.values()), [*rooms_now, *booting(pools.values())])
    for gang in gangs:
        trial = serve(gang, trial) or trial
    rooms = {each.name: room for each, room in zip(ordered, trial.machines, strict=False)}
    found, looked = set[str](), 0
    for each in reversed(ordered):
        if not _may_go(each, spare) or spare[each.pool] <= 0 or rooms[each.name].used:
            continue
        if each.movable:
            looked += 1
            others = [rooms[other.name] for other in ordered if other.name not in found and other.name != each.name]
            if looked > _MOST_LOOKED_AT or not _move(each.movable, others):
                continue
        found.add(each.name)
        spare[each.pool] -= 1
    return found


def _move(pods: Sequence[Demand], rooms: Sequence[Room]) -> bool:
    """Give the pods places in these rooms, all or none; rooms that take some are used from then on."""
    trial = Trial((), rooms)
    if not all(trial.place(each) for each in pods):
        return False
    for room, after in zip(rooms, trial.machines, strict=True):
        room.free, room.used = after.free, after.used
    return True


def _may_go(each: Held, spare: Mapping[str, int]) -> bool:
    return not each.stays and spare.get(each.pool, 0) > 0


def _cost(each: Held, pools: Mapping[str, Pool]) -> float:
    return pools[each.pool].cost if each.pool in pools else 0.0
