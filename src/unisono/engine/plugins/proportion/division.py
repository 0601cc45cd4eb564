"""Divides what there is among queues by weight, between their guarantees and what they ask for or may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from unisono.api.selecting import lineage
from unisono.cluster.resources import PODS
from unisono.engine.plugins.proportion.claims import Claims, claims_of
from unisono.engine.session.limit import UNLIMITED, Amounts, by_row, listed

if TYPE_CHECKING:
    from unisono.engine.session.job_state import QueueState
    from unisono.engine.session.session import Session


# How a cluster is shared among queues by weight: exact water filling.
#
# Volcano fills in rounds of floating point numbers and stops when little is left; a queue that wants something alone
# then ends a hair below what it could have (a 1-GPU pod is refused at 7999.94 milli-GPU). Here each resource is filled
# to the very end with whole numbers.


@dataclass(frozen=True, slots=True)
class Share:
    """One queue's claim on one resource (engine units).

    Attributes:
        weight: the queue's weight, 0 or more.
        request: what its tasks hold and ask for.
        limit: what it may have at most (None: no limit).
        guarantee: what it gets at least, even unasked.
    """

    weight: int
    request: int
    limit: int | None = None
    guarantee: int = 0


def fill(total: int, shares: Sequence[Share]) -> list[int]:
    """Deserved amount of one resource per queue.

    Every queue first gets its weighted part of ``total``, cut at request and limit and lifted to its guarantee; what is
    left goes by weight to the queues that still want more, until nothing is left or no queue wants any. Guarantees are
    granted even where they exceed ``total`` together. Results are whole numbers, rounded down, in the order of
    ``shares``.
    """
    ceilings = [_ceiling(share) for share in shares]
    if sum(ceilings) <= total and all(share.weight > 0 for share in shares):
        return ceilings  # enough for all queues
    if any(share.guarantee for share in shares):
        held = _first_round(total, shares, ceilings)
    else:
        held = [Fraction(0)] * len(shares)
    left = total - sum(held)
    if left > 0:
        _pour(left, held, ceilings, [share.weight for share in shares])
    return [int(amount) for amount in held]


def fill_above(total: int, shares: Sequence[Share], floors: Sequence[int]) -> list[int]:
    """As `fill`, where each queue first gets its floor, as far as it wants it; floors that exceed ``total`` are cut."""
    stated = floors
    floors = [min(floor, _ceiling(share)) for floor, share in zip(stated, shares, strict=True)]
    if sum(floors) > total:
        rows = zip(stated, floors, shares, strict=True)
        return fill(total, [Share(weight, floor, guarantee=share.guarantee) for weight, floor, share in rows])
    settled: set[int] = set()
    while True:
        rest = [at for at in range(len(shares)) if at not in settled]
        parts = fill(total - sum(floors[at] for at in settled), [shares[at] for at in rest])
        below = {at for at, part in zip(rest, parts, strict=True) if part < floors[at]}
        if not below:
            by_place = dict(zip(rest, parts, strict=True))
            return [by_place.get(at, floor) for at, floor in enumerate(floors)]
        settled |= below


def _ceiling(share: Share) -> int:
    bounded = share.request if share.limit is None else min(share.request, share.limit)
    return max(bounded, share.guarantee)


def _first_round(total: int, shares: Sequence[Share], ceilings: Sequence[int]) -> list[Fraction]:
    weight = sum(share.weight for share in shares)
    if weight <= 0:
        return [Fraction(share.guarantee) for share in shares]
    return [
        max(min(Fraction(total * share.weight, weight), Fraction(ceiling)), Fraction(share.guarantee))
        for share, ceiling in zip(shares, ceilings, strict=True)
    ]


def _pour(left: Fraction | int, held: list[Fraction], ceilings: Sequence[int], weights: Sequence[int]) -> None:
    """Raise ``held`` by weight up to the ceilings; the queue that is full first is settled first."""
    thirsty = [i for i in range(len(held)) if weights[i] > 0 and held[i] < ceilings[i]]
    thirsty.sort(key=lambda i: (ceilings[i] - held[i]) / weights[i])
    weight = sum(weights[i] for i in thirsty)
    for position, index in enumerate(thirsty):
        room = ceilings[index] - held[index]
        if room * weight > left * weights[index]:
            for rest in thirsty[position:]:
                held[rest] += Fraction(left * weights[rest], 1) / weight
            return
        held[index] = Fraction(ceilings[index])
        left -= room
        weight -= weights[index]


# What queues may deserve below one that has a capability or deserves an amount: together that at most or at least.


def limits_in_families(
    session: Session,
    requests: Mapping[str, Amounts],
    capability: Mapping[str, Amounts],
    guarantees: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    """Lower ``capability`` so that queues below a capped queue share its capability by weight.

    Without it a queue that holds all of its parent's capability deserves what it holds, and its siblings starve: the
    parent lets them place nothing, and nothing can be reclaimed.

    Args:
        session: gives weights, parents and capabilities.
        requests: per queue with jobs what it holds and asks for, by resource row.
        capability: likewise, what it may hold.
        guarantees: likewise, what it gets at least.

    Returns:
        per queue with jobs what it may deserve at most.
    """
    limits = {name: list(amounts) for name, amounts in capability.items()}
    if not any(queue.record.capability for queue in session.queues.values()):
        return limits
    for above, family in _families(session, limits):
        queue = session.queues.get(above)
        if queue is None or not queue.record.capability or family == [above]:
            continue
        for row, most in enumerate(by_row(queue.record.capability, session.registry, UNLIMITED)):
            if row == PODS or most >= UNLIMITED:
                continue
            shares = [
                Share(session.queues[name].record.weight, requests[name][row], limits[name][row], guarantees[name][row])
                for name in family
            ]
            for name, part in zip(family, fill(most, shares), strict=True):
                limits[name][row] = min(limits[name][row], part)
    return limits


def deserved_in_families(
    session: Session,
    requests: Mapping[str, Amounts],
    capability: Mapping[str, Amounts],
    guarantees: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    """What queues deserve at least: what they state, and their part of what a queue above them states.

    Args:
        session: as for `limits_in_families`, and so the others.
        requests: per queue with jobs.
        capability: likewise.
        guarantees: likewise.

    Returns:
        per queue with jobs, by resource row; empty where no queue states anything.
    """
    if not any(queue.record.deserved for queue in session.queues.values()):
        return {}
    stated = {name: by_row(queue.record.deserved, session.registry) for name, queue in session.queues.items()}
    floors = {name: list(stated[name]) for name in requests}
    for above, family in _families(session, requests):
        if above not in stated or family == [above]:
            continue
        for row, amount in enumerate(stated[above]):
            if row != PODS and amount:
                limits = [
                    Share(
                        session.queues[name].record.weight,
                        requests[name][row],
                        capability[name][row],
                        guarantees[name][row],
                    )
                    for name in family
                ]
                parts = fill_above(amount, limits, [floors[name][row] for name in family])
                for name, part in zip(family, parts, strict=True):
                    floors[name][row] = max(floors[name][row], part)
    for floor in floors.values():
        floor[PODS] = 0
    return floors


def _families(session: Session, names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Each queue that is or is above one of these, with those of them below it; the deepest first."""
    parents = {name: queue.record.parent for name, queue in session.queues.items()}
    families: dict[str, list[str]] = {}
    heights: dict[str, int] = {}
    for name in names:
        for depth, above in enumerate(reversed(lineage(name, parents))):
            families.setdefault(above, []).append(name)
            heights[above] = depth
    return [(above, families[above]) for above in sorted(families, key=lambda name: (-heights[name], name))]


# What each queue deserves of the cluster, by weight.


@dataclass(frozen=True, slots=True)
class Division:
    """Amounts by queue name, for queues that have jobs.

    Attributes:
        real_capability: what is left of the cluster beside the guarantees of others, at most the queue's capability.
        admission: the same for jobs whose pods are not made yet, of which nobody knows what taints they will tolerate.
        deserved: its share by water filling: at most what it asks for and its real capability, at least its guarantee.
            Queues below one with a capability deserve no more than that together.
        reach: the same where that binds; where it is all that the queue can use, what it asks for and may hold, as
            its limits say better why it gets no more than its share.
        undivided: likewise, where a capability above is not divided among the queues below it.
        requests: what it holds and asks for, as far as it can use that.
    """

    real_capability: dict[str, Amounts]
    admission: dict[str, Amounts]
    deserved: dict[str, Amounts]
    reach: dict[str, Amounts]
    undivided: dict[str, Amounts]
    requests: dict[str, Amounts]


def divide(
    session: Session, *, deserved: bool = False, asked: Mapping[str, Amounts] | None = None, lost: Amounts | None = None
) -> Division:
    """Divide the usable cluster among the session's queues.

    Args:
        session: at its opening.
        deserved: queues get what they state as ``deserved``, as far as they ask for it, before weights count.
        asked: by name what queues hold and ask for, those that count; None: as the session's jobs tell.
        lost: by resource row, how much less there is.
    """
    registry = session.registry
    total, promisable = listed(session.sharable_total, registry), listed(session.promisable_total, registry)
    if lost is not None:
        total = [max(there - gone, 0) for there, gone in zip(total, lost, strict=True)]
    guarantees = {name: by_row(queue.record.guarantee, registry) for name, queue in session.queues.items()}
    promised = [sum(row) for row in zip(*guarantees.values(), strict=True)] or [0] * len(total)
    queues = [queue for name, queue in session.queues.items() if (queue.job_count if asked is None else name in asked)]
    capability: dict[str, Amounts] = {}
    admission: dict[str, Amounts] = {}
    for queue in queues:
        limits = by_row(queue.record.capability, registry, UNLIMITED)
        for all_of_it, bounds in ((total, capability), (promisable, admission)):
            rows = zip(all_of_it, promised, guarantees[queue.name], limits, strict=True)
            bounds[queue.name] = [min(max(whole - others, 0) + own, limit) for whole, others, own, limit in rows]
    claims = claims_of(session, promisable, admission) if asked is None else Claims({**asked}, {**asked})
    requests = claims.usable
    reach = limits_in_families(session, requests, capability, guarantees)

    def filled(limits: dict[str, Amounts]) -> dict[str, Amounts]:
        floors = deserved_in_families(session, requests, limits, guarantees) if deserved else {}
        return _water_fill(total, queues, requests, limits, guarantees, floors)

    divided = filled(reach)
    within = claims.lift(divided, reach)
    undivided = within if reach == capability else claims.lift(filled(capability), capability)
    return Division(capability, admission, divided, within, undivided, requests)


def _water_fill(
    total: Amounts,
    queues: list[QueueState],
    requests: dict[str, Amounts],
    capability: dict[str, Amounts],
    guarantees: dict[str, Amounts],
    floors: Mapping[str, Amounts],
) -> dict[str, Amounts]:
    deserved: dict[str, Amounts] = {queue.name: [] for queue in queues}
    for row, amount in enumerate(total):
        shares = [
            Share(queue.record.weight, requests[name][row], capability[name][row], guarantees[name][row])
            for queue in queues
            for name in (queue.name,)
        ]
        parts = fill_above(amount, shares, [floors[queue.name][row] for queue in queues]) if floors else None
        for queue, part in zip(queues, parts or fill(amount, shares), strict=True):
            deserved[queue.name].append(part)
    return deserved
