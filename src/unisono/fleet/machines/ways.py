"""Which machines of which members would serve jobs that start together, and which of these ways is best (pure).

A job that stands alone is one of one; the parts of a gang over members are several, which get all their machines or
none. What one of them takes, room or machines, is not there for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from unisono.controllers.node_scaling.decide import PATIENCE, Demand, Pool, Room, Trial, fill, serve

BOOT_SECONDS: Final = 240.0
"""How long machines take to come where neither their group says it nor any has come yet."""
LATE_SECONDS: Final = 60.0
"""What a member gets beyond the time of its group: the pods must be seen, and bound."""
MOST_TOGETHER: Final = 64
"""Parts of one gang for which machines are looked for."""
_TRIES: Final = 1000
"""Places of one part in one member that are looked at for a gang."""


@dataclass(frozen=True, slots=True)
class Way:
    """Machines of one member by which a gang would run.

    Attributes:
        cluster: the member.
        machines: how many, by group; none where there is room.
        seconds: until they are expected.
        price: of all of them, an hour; of room, what it costs there.
        patience: in which they must have come.
    """

    cluster: str
    machines: Mapping[str, int]
    seconds: float = 0.0
    price: float = 0.0
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What one of the jobs that start together asks for.

    Attributes:
        uid: of the job.
        gang: its pods that must have places together.
        clusters: members that may have it.
        ranks: points of members by the groups of a policy; the earlier, the more.
    """

    uid: str
    gang: Sequence[Demand]
    clusters: Collection[str]
    ranks: Mapping[str, float] = field(default_factory=dict)


class Stock:
    """What one member has; it does not change."""

    def __init__(self, cluster: str, pools: Sequence[Pool], rooms: Sequence[Room] = ()) -> None:
        """``rooms`` are those of nodes that are there, ``pools`` groups of nodes that may grow."""
        self._cluster, self._pools, self._rooms = cluster, pools, rooms

    def serve(self, gang: Sequence[Demand], *, cheapest: bool) -> tuple[Way, Stock] | None:
        """The soonest way, of those the cheapest, or the cheapest of all, and what is left; None where there is none.

        Args:
            gang: pods that must have places together.
            cheapest: whether price counts before time.
        """
        left, rooms = fill(gang, self._rooms)
        if not left:
            return Way(self._cluster, {}), Stock(self._cluster, self._pools, rooms)
        times = sorted({boot_seconds(pool) for pool in self._pools if not pool.failing})
        for most in times[-1:] if cheapest else times:
            trial = serve(left, Trial([pool for pool in self._pools if boot_seconds(pool) <= most], ()))
            if trial is None:
                continue
            planned = trial.planned
            used = [pool for pool in trial.pools if planned[pool.name]]
            way = Way(
                self._cluster,
                {pool.name: planned[pool.name] for pool in used},
                max(map(boot_seconds, used)) + PATIENCE,
                trial.cost,
                max(pool.provision_seconds for pool in used) + PATIENCE + LATE_SECONDS,
            )
            pools = [replace(pool, most=pool.most - planned.get(pool.name, 0)) for pool in self._pools]
            return way, Stock(self._cluster, pools, rooms)
        return None


def boot_seconds(pool: Pool) -> float:
    """How long a machine of a group takes to come."""
    return BOOT_SECONDS if pool.boot_seconds is None else pool.boot_seconds


def ways(
    asks: Sequence[Ask],
    stocks: Mapping[str, Stock],
    *,
    cheapest: bool,
    most: int | None = None,
    fixed: Collection[str] = (),
    cost: Callable[[str, str], float] = lambda _cluster, _uid: 0.0,
) -> Iterator[dict[str, Way]]:
    """How all of them would run, by uid, the best first: each way needs machines somewhere.

    Room that is there comes first, then the earliest groups of the policy, of these the soonest and of these the
    cheapest. Where price counts before time, it counts before room as well.

    Args:
        asks: jobs that start together.
        stocks: what members have.
        cheapest: whether price counts before time.
        most: members that they may be in, with ``fixed``; None for any number.
        fixed: members that have others of them.
        cost: what the room that a job would take in a member costs in an hour.
    """
    if len(asks) > MOST_TOGETHER:
        return
    # Those that may go to few members first, and of these the largest.
    order = sorted(asks, key=lambda ask: (len(ask.clusters), -sum(pods.count for pods in ask.gang), ask.uid))
    tries = 0

    def options(ask: Ask, left: Mapping[str, Stock], used: Collection[str]) -> list[tuple[Way, Stock]]:
        nonlocal tries
        usable = []
        for name in sorted(ask.clusters):
            if name not in left or (most and len({*used, name}) > most) or tries >= _TRIES:
                continue
            tries += 1
            served = left[name].serve(ask.gang, cheapest=cheapest)
            if served is not None and not served[0].machines:
                served = replace(served[0], price=cost(name, ask.uid)), served[1]
            if served is not None and (served[0].machines or len(order) > 1):
                usable.append(served)

        def key(option: tuple[Way, Stock]) -> tuple[bool, float, float, float, str]:
            way = option[0]
            first, second = (way.price, way.seconds) if cheapest else (way.seconds, way.price)
            return bool(way.machines) and not cheapest, -ask.ranks.get(way.cluster, 0.0), first, second, way.cluster

        return sorted(usable, key=key)

    def place(at: int, left: Mapping[str, Stock], used: Collection[str]) -> Iterator[dict[str, Way]]:
        if at == len(order):
            yield {}
            return
        ask = order[at]
        for way, rest in options(ask, left, used):
            for others in place(at + 1, {**left, way.cluster: rest}, {*used, way.cluster}):
                yield {ask.uid: way, **others}

    for chosen in place(0, stocks, set(fixed)):
        if any(way.machines for way in chosen.values()):
            yield chosen
