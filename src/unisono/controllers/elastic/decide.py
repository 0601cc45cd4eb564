"""How many replicas elastic jobs should have (pure).

A gang that waits and would fit if elastic jobs had fewer replicas gets its room, from those that have the most beyond
their minimum; so do pods beyond the minimum of their group, such as replicas of a server, from jobs of lower priority.
What then is free and is promised to none of them is dealt out, to those that have the least, as far as every limit has
room. A job is not changed again before its cool-down is over, and grows only while all of its replicas have places:
nothing swings. Replicas without places that a limit will not let in are given up.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unisono.controllers.elastic.allowances import Claim
from unisono.controllers.node_scaling.decide import Demand, Room, Trial

COOL_DOWN = 300.0
"""Seconds from a change of a job to its next growth, where the job says nothing else."""
SETTLE = 15.0
"""Seconds from a change of a job until it may shrink: pods of its last change are on their way."""
_MOST_PRUNED = 200


@dataclass(frozen=True, slots=True)
class Elastic:
    """Replicas of a job that may be more or fewer.

    Attributes:
        key: unique; ties go to the first.
        replicas: as the job asks for now.
        least: replicas that it needs.
        most: replicas that it can use.
        demand: the pods of one replica.
        places: of each replica the nodes of its pods, empty for one without a place; the last ones leave first. A job
            of which more or fewer replicas exist than it asks for is not changed.
        changed: when its replicas were changed last, seconds since 1970; minus infinity for never.
        cool_down: seconds from a change to the next growth.
        priority: of its pods.
        claims: what one replica asks of each limit that holds for the job.

    """

    key: str
    replicas: int
    least: int
    most: int
    demand: Demand
    places: tuple[tuple[str, ...], ...] = ()
    changed: float = float("-inf")
    cool_down: float = COOL_DOWN
    priority: int = 0
    claims: tuple[Claim, ...] = ()

    @property
    def settled(self) -> bool:
        """There are as many replicas as it asks for."""
        return len(self.places) == self.replicas

    @property
    def spare(self) -> int:
        """Replicas that may leave: so many with places stay as it needs."""
        stay, placed = 0, 0
        for nodes in self.places:
            stay, placed = stay + 1, placed + bool(nodes)
            if placed >= self.least and stay >= self.least:
                break
        return max(0, self.replicas - stay)


@dataclass(frozen=True, slots=True)
class Extra:
    """A pod that waits although its group has its minimum.

    Attributes:
        name: of the pod.
        group: pods of one group are alike: where one finds no room, the others do not either.
        demand: what it needs.
        priority: only jobs of lower priority make room for it.

    """

    name: str
    group: str
    demand: Demand
    priority: int


@dataclass(frozen=True, slots=True)
class ElasticPlan:
    """What should change.

    Attributes:
        replicas: by key, for those that should have others.
        reasons: by key, what for.

    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)


def plan(
    jobs: Sequence[Elastic],
    gangs: Iterable[tuple[str, Sequence[Demand]]],
    rooms: Sequence[Room],
    now: float,
    extras: Iterable[Extra] = (),
) -> ElasticPlan:
    """Decide about all elastic jobs together.

    Args:
        jobs: what may grow and shrink.
        gangs: name and missing pods of each gang that waits, who waits longest first.
        rooms: what is free on each node, each a pool of one machine; what leaves already counts as free.
        now: seconds since 1970.
        extras: pods that wait beyond the minimum of their group, who is to be served first first.

    """
    free = Trial((), rooms)
    taken: dict[str, int] = {}
    reasons: dict[str, str] = {}
    by_key, hopeless = {each.key: each for each in jobs}, set[str]()
    wishes = [(f"{name}, which waits", gang, jobs, "") for name, gang in gangs]
    for extra in extras:
        lower = [each for each in jobs if each.priority < extra.priority]
        wishes.append((f"pod {extra.name}, of higher priority, which waits", [extra.demand], lower, extra.group))
    for name, gang, givers, group in wishes:
        if group in hopeless:
            continue
        served = _fits(gang, free)
        if served is None:
            found = _make_room(gang, free, _leaving(givers, taken, now), by_key, taken)
            if found is None:
                hopeless |= {group} - {""}
                continue
            served, gone = found
            for key in gone:
                taken[key] = taken.get(key, 0) + 1
                reasons[key] = f"for {name}"
        free = served
    wanted = {each.key: each.replicas - taken[each.key] for each in jobs if taken.get(each.key)}
    for each in jobs:
        given_up, what = _in_vain(each, now) if each.key not in wanted else (0, "")
        if given_up:
            wanted[each.key], reasons[each.key] = each.replicas - given_up, f"beyond {what}"
    for key, replicas in _grow([each for each in jobs if each.key not in wanted], free.machines, now).items():
        wanted[key], reasons[key] = replicas, "for there is room that no gang waits for"
    return ElasticPlan(wanted, reasons)


def _fits(gang: Sequence[Demand], free: Trial) -> Trial | None:
    trial = free.copy()
    return trial if all(not trial.fill(part) for part in gang) else None


def _leaving(jobs: Sequence[Elastic], taken: Mapping[str, int], now: float) -> list[str]:
    """Keys in the order in which replicas leave: always of the job that has the most beyond its minimum."""
    heap = []
    for each in jobs:
        spare = each.spare - taken.get(each.key, 0)
        if each.settled and spare > 0 and now - each.changed >= SETTLE:
            heap.append((-spare, each.key))
    heapq.heapify(heap)
    order = []
    while heap:
        spare, key = heapq.heappop(heap)
        order.append(key)
        if spare + 1 < 0:
            heapq.heappush(heap, (spare + 1, key))
    return order


def _make_room(
    gang: Sequence[Demand], free: Trial, order: Sequence[str], jobs: Mapping[str, Elastic], taken: Mapping[str, int]
) -> tuple[Trial, list[str]] | None:
    """The fewest replicas of this order that make room for the gang, without those that do not help."""

    def after(gone: Sequence[str]) -> Trial | None:
        trial = free.copy()
        at = {room.pool.name: room for room in trial.machines}
        counts = dict(taken)
        for key in gone:
            job, left = jobs[key], counts.get(key, 0)
            counts[key] = left + 1
            for node in job.places[len(job.places) - 1 - left]:
                if node in at:
                    _give_back(at[node], job.demand)
        return _fits(gang, trial)

    if after(order) is None:
        return None
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if after(order[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    gone = list(order[:high])
    for key in gone[:_MOST_PRUNED]:
        fewer = list(gone)
        fewer.remove(key)
        if after(fewer) is not None:
            gone = fewer
    served = after(gone)
    assert served is not None
    return served, gone


def _give_back(room: Room, pod: Demand) -> None:
    for name, amount in pod.requests.items():
        room.free[name] = room.free.get(name, 0) + amount


def _in_vain(job: Elastic, now: float) -> tuple[int, str]:
    """How many of the last replicas, without places for long, are more than a limit allows, and which limit."""
    if not job.settled or now - job.changed < max(job.cool_down, SETTLE):
        return 0, ""
    given_up, what = 0, ""
    for nodes in reversed(job.places[job.least :]):
        over = [claim.limit for claim in job.claims if claim.limit.overdrawn(claim.asked)]
        if nodes or not over:
            break
        given_up, what = given_up + 1, over[0].what
        for claim in job.claims:
            claim.limit.take(claim.asked, -1)
    return given_up, what


def _grow(jobs: Sequence[Elastic], rooms: Sequence[Room], now: float) -> dict[str, int]:
    """Deal out what is free, one replica at a time, to the job that has the fewest for its minimum."""
    ready = [
        each
        for each in jobs
        if each.replicas < each.most
        and each.settled
        and all(each.places)
        and now - each.changed >= max(each.cool_down, SETTLE)
    ]
    heap = [(each.replicas / max(each.least, 1), each.key, each.replicas, at) for at, each in enumerate(ready)]
    heapq.heapify(heap)
    first = [0] * len(ready)  # rooms only fill up: those that were too small stay so
    grown: dict[str, int] = {}
    while heap:
        _, key, replicas, at = heapq.heappop(heap)
        job = ready[at]
        if not all(claim.limit.room(claim.asked) for claim in job.claims) or not _take(job.demand, rooms, first, at):
            continue
        for claim in job.claims:
            claim.limit.take(claim.asked)
        grown[key] = replicas + 1
        if replicas + 1 < job.most:
            heapq.heappush(heap, ((replicas + 1) / max(job.least, 1), key, replicas + 1, at))
    return grown


def _take(pods: Demand, rooms: Sequence[Room], first: list[int], at: int) -> bool:
    """Take room for all pods of one replica, or nothing."""
    left, used = pods.count, list[tuple[Room, int]]()
    for number in range(first[at], len(rooms)):
        taken = rooms[number].take(pods, left)
        if taken:
            used.append((rooms[number], taken))
            left -= taken
        elif not used:
            first[at] = number + 1
        if not left:
            return True
    for room, taken in used:
        for name, amount in pods.requests.items():
            room.free[name] = room.free.get(name, 0) + taken * amount
    return False
