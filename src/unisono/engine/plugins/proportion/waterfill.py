"""How a cluster is shared among queues by weight: exact water filling.

Volcano fills in rounds of floating point numbers and stops when little is left; a queue that wants something alone
then ends a hair below what it could have (a 1-GPU pod is refused at 7999.94 milli-GPU). Here each resource is filled to
the very end with whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction


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
    wanted = share.request if share.limit is None else min(share.request, share.limit)
    return max(wanted, share.guarantee)


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
