"""Node scores of kube-scheduler 1.36 as array formulas; every division truncates as there.

Shapes: ``requested`` and ``allocatable`` are int64 ``[resource, node]`` over the resources that the score looks at
(cpu in milli-cores, memory in bytes, others in milli-units); results are one value per node, 0..100 before weights.
``requested`` already contains the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = Sequence[int]

MAX_SCORE = 100


def least_allocated(requested: Ints, allocatable: Ints, weights: Ints) -> Ints:
    """Weighted mean over resources of the free share in percent; a resource the node lacks is left out."""
    free = np.maximum(allocatable - requested, 0) * MAX_SCORE // np.maximum(allocatable, 1)
    return _weighted_mean(free, allocatable, weights)


def most_allocated(requested: Ints, allocatable: Ints, weights: Ints) -> Ints:
    """Weighted mean over resources of the used share in percent, at most 100 each."""
    used = np.minimum(requested, allocatable) * MAX_SCORE // np.maximum(allocatable, 1)
    return _weighted_mean(used, allocatable, weights)


def _weighted_mean(scores: Ints, allocatable: Ints, weights: Ints) -> Ints:
    if allocatable.all():
        total = int(weights.sum())
        mean = scores[0] * weights[0]
        for score, weight in zip(scores[1:], weights[1:], strict=True):
            mean = mean + score * weight
        return np.asarray(mean // max(total, 1), dtype=np.int64)
    weight = np.where(allocatable != 0, weights[:, None], 0)
    return np.asarray((scores * weight).sum(axis=0) // np.maximum(weight.sum(axis=0), 1), dtype=np.int64)


def balance(requested: Ints, allocatable: Ints) -> Ints:
    """How even a node's resources are used: ``int((1 - std) * 100)`` of the used fractions, each at most 1.

    The deviation is half the distance for two resources, the population's standard deviation for more, else 0.
    """
    if len(allocatable) == 2 and allocatable.all():  # the usual case, with a tenth of the passes
        used = np.minimum(requested / allocatable, 1.0)
        return np.asarray(((1.0 - np.abs(used[0] - used[1]) / 2) * MAX_SCORE).astype(np.int64))
    present = allocatable != 0
    fraction = np.where(present, np.minimum(1.0, requested / np.maximum(allocatable, 1)), 0.0)
    count = present.sum(axis=0)
    mean = fraction.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(present, (fraction - mean) ** 2, 0.0).sum(axis=0)
    spread = np.sqrt(squares / np.maximum(count, 1))
    low = np.where(present, fraction, np.inf).min(axis=0, initial=np.inf)
    high = np.where(present, fraction, -np.inf).max(axis=0, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        half = (high - low) / 2
    deviation = np.where(count == 2, half, np.where(count > 2, spread, 0.0))
    return ((1.0 - deviation) * MAX_SCORE).astype(np.int64)


def balanced_allocation(before: Ints, after: Ints, allocatable: Ints) -> Ints:
    """75 where the pod leaves a node's balance alone, towards 100 where it improves it, towards 50 where it worsens."""
    change = 50 + balance(after, allocatable) - balance(before, allocatable)
    return 50 + change // 2


def binpack(request: Ints, used: Ints, allocatable: Ints, weights: Ints) -> Floats:
    """Weighted mean of the used share after placement, times 100; 0 where a weighted resource would overflow.

    ``request`` and ``weights`` are ``[resource]`` over the requested resources with a weight; used and allocatable are
    ``[resource, node]``. A resource that the node lacks counts in the divisor only.
    """
    total = int(weights.sum())
    if total <= 0:
        return np.zeros(used.shape[1], dtype=np.float64)
    after = used + request[:, None]
    if allocatable.all():
        parts = weights[:, None] * after / allocatable
        return np.where((after > allocatable).any(axis=0), 0.0, parts.sum(axis=0) / total * MAX_SCORE)
    share = np.where(allocatable > 0, weights[:, None] * after / np.maximum(allocatable, 1), 0.0)
    overflow = ((after > allocatable) & (allocatable > 0)).any(axis=0)
    return np.where(overflow, 0.0, share.sum(axis=0) / total * MAX_SCORE)


# The same for one node, in plain numbers: a vector pass over one node costs thirty times as much. Each gives exactly
# what its namesake gives for that node; amounts are lists by resource.


def least_allocated_at(requested: Numbers, allocatable: Numbers, weights: Numbers) -> int:
    """See `least_allocated`."""
    points = total = 0
    for taken, whole, weight in zip(requested, allocatable, weights, strict=True):
        if whole:
            points += max(whole - taken, 0) * MAX_SCORE // whole * weight
            total += weight
    return points // max(total, 1)


def most_allocated_at(requested: Numbers, allocatable: Numbers, weights: Numbers) -> int:
    """See `most_allocated`."""
    points = total = 0
    for taken, whole, weight in zip(requested, allocatable, weights, strict=True):
        if whole:
            points += min(taken, whole) * MAX_SCORE // whole * weight
            total += weight
    return points // max(total, 1)


def balance_at(requested: Numbers, allocatable: Numbers) -> int:
    """See `balance`."""
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


def balanced_allocation_at(before: Numbers, after: Numbers, allocatable: Numbers) -> int:
    """See `balanced_allocation`."""
    return 50 + (50 + balance_at(after, allocatable) - balance_at(before, allocatable)) // 2


def binpack_at(request: Numbers, used: Numbers, allocatable: Numbers, weights: Numbers) -> float:
    """See `binpack`."""
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
