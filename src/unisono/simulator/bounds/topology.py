"""The least distance between the hosts of a gang in a tree of domains: a bound at any time, and for what is free now.

The distance of two hosts is twice the tier of the lowest domain that has both: 2 below one leaf, 4 in one pod of
leaves, and so on. The cost of a gang is its sum over all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

_MOST = 4096
"""Hosts of a gang."""


def least_cost(paths: Mapping[str, Sequence[str]], hosts: int) -> float:
    """Least sum of distances over the pairs of ``hosts`` hosts; infinite where there are too few.

    A dynamic programme over the tree: what it costs to take k hosts below a domain follows from what it costs below its
    children. Pairs of different children are as far apart as the domain's tier says.

    Args:
        paths: domains of each host that may be taken, from the leaf upwards, all of one length.
        hosts: of the gang, at most 4096.

    Raises:
        ValueError: paths have different lengths, or ``hosts`` is out of range.

    """
    lengths = {len(path) for path in paths.values()}
    if len(lengths) > 1 or not 0 < hosts <= _MOST:
        raise ValueError(f"a gang has 1 to {_MOST} hosts, and all hosts lie equally deep")
    depth = lengths.pop() if lengths else 0
    below: dict[tuple[str, ...], list[float]] = {}
    for path in paths.values():
        key = tuple(reversed(path))
        below[key] = _joined(below.get(key, [0.0]), [0.0, 0.0], 1, hosts)
    for tier in range(2, depth + 1):
        above: dict[tuple[str, ...], list[float]] = {}
        for key, costs in below.items():
            above[key[:-1]] = _joined(above.get(key[:-1], [0.0]), costs, tier, hosts)
        below = above
    whole = [0.0]
    for costs in below.values():
        whole = _joined(whole, costs, depth + 1, hosts)
    return whole[hosts] if hosts < len(whole) else inf


def _joined(one: list[float], other: list[float], tier: int, most: int) -> list[float]:
    """Costs by number of hosts below two domains together, whose hosts are ``2 * tier`` apart."""
    found = [inf] * min(len(one) + len(other) - 1, most + 1)
    for left, cost in enumerate(one):
        for right in range(min(len(other), len(found) - left)):
            total = cost + other[right] + 2 * tier * left * right
            found[left + right] = min(found[left + right], total)
    return found
