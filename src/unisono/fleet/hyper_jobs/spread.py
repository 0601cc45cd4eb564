"""Over how many clusters a HyperJob spreads: sets of clusters for ``maxDomains``, parts for ``mode: auto`` (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, islice
from typing import Final

from unisono.controllers.hyperjob.split import MOST_PARTS

MOST_SETS: Final = 256
"""Sets of clusters that are tried in turn."""


def domain_set(
    most: int, fixed: Collection[str], room: Mapping[str, int], bounds: Sequence[Collection[str]], attempt: int
) -> tuple[str, ...] | None:
    """The clusters that the waiting parts may use, so that all parts are in ``most`` clusters or fewer.

    Sets with more room come first; with each attempt the next one is tried, and after the last the first again.

    Args:
        most: clusters that may be used.
        fixed: clusters that have parts already.
        room: clusters that take work, and how many pods each has room for.
        bounds: clusters that may have a part, for each part with such a bound.
        attempt: how many sets were tried before.

    Returns:
        the set; None where every set is allowed. An empty set means that no set can have all parts.

    """
    others = sorted((name for name in room if name not in fixed), key=lambda name: (-room[name], name))
    if len(others) + len(set(fixed)) <= most:
        return None
    free = max(0, most - len(set(fixed)))
    sets = [
        tuple(sorted({*fixed, *chosen}))
        for chosen in islice(combinations(others, free), MOST_SETS)
        if all(not bound or not {*fixed, *chosen}.isdisjoint(bound) for bound in bounds)
    ]
    return sets[attempt % len(sets)] if sets else ()


def number_of_parts(pods: int, most: int, room: Mapping[str, int], empty: Mapping[str, int]) -> int:
    """The fewest parts of equal size that find room, one or several in a cluster.

    Args:
        pods: of all parts together.
        most: parts at most.
        room: pods that each cluster has room for now.
        empty: the same if it were empty; counts where what is free now does not do.

    """
    for places in (room, empty):
        for parts in range(1, min(most, pods, MOST_PARTS) + 1):
            size = -(-pods // parts)
            if sum(each // size for each in places.values()) >= parts:
                return parts
    return 1
