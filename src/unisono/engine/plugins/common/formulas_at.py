"""The formulas of `formulas` for one node, in plain numbers: a vector pass over one node costs thirty times as much.

Each gives exactly what its namesake gives for that node; amounts are lists by resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from unisono.engine.plugins.common.formulas import MAX_SCORE

Numbers = Sequence[int]


def least_allocated(requested: Numbers, allocatable: Numbers, weights: Numbers) -> int:
    """See `formulas.least_allocated`."""
    points = total = 0
    for taken, whole, weight in zip(requested, allocatable, weights, strict=True):
        if whole:
            points += max(whole - taken, 0) * MAX_SCORE // whole * weight
            total += weight
    return points // max(total, 1)


def most_allocated(requested: Numbers, allocatable: Numbers, weights: Numbers) -> int:
    """See `formulas.most_allocated`."""
    points = total = 0
    for taken, whole, weight in zip(requested, allocatable, weights, strict=True):
        if whole:
            points += min(taken, whole) * MAX_SCORE // whole * weight
            total += weight
    return points // max(total, 1)


def balance(requested: Numbers, allocatable: Numbers) -> int:
    """See `formulas.balance`."""
    if len(allocatable) == 2 and allocatable[0] and allocatable[1]:  # the usual case
        apart = min(requested[0] / allocatable[0], 1.0) - min(requested[1] / allocatable[1], 1.0)
        return int((1.0 - abs(apart) / 2) * MAX_SCORE)
    parts = [min(taken / whole, 1.0) for taken, whole in zip(requested, allocatable, strict=True) if whole]
    number = len(parts)
    deviation = 0.0
    if number == 2:
        deviation = abs(parts[0] - parts[1]) / 2
    elif number > 2:
        mean = _sum(parts) / number
        deviation = sqrt(_sum([(part - mean) * (part - mean) for part in parts]) / number)
    return int((1.0 - deviation) * MAX_SCORE)


def balanced_allocation(before: Numbers, after: Numbers, allocatable: Numbers) -> int:
    """See `formulas.balanced_allocation`."""
    return 50 + (50 + balance(after, allocatable) - balance(before, allocatable)) // 2


def binpack(request: Numbers, used: Numbers, allocatable: Numbers, weights: Numbers) -> float:
    """See `formulas.binpack`."""
    share, total = 0.0, 0
    for more, taken, whole, weight in zip(request, used, allocatable, weights, strict=True):
        total += weight
        if whole > 0:
            if taken + more > whole:
                return 0.0
            share += weight * (taken + more) / whole
    return share / total * MAX_SCORE if total > 0 else 0.0


def _sum(parts: Sequence[float]) -> float:
    """From the first to the last, as over the rows of an array; ``sum`` rounds differently from Python 3.12 on."""
    total = 0.0
    for part in parts:
        total += part
    return total
