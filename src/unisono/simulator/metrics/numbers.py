"""Small statistics: means, nearest-rank percentiles, Jain's index."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None of nothing."""
    return sum(values) / len(values) if values else None


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """Mean by weight; None where nothing weighs."""
    total = sum(weights)
    if not total:
        return None
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Nearest-rank percentile: the smallest value that is not below ``percent`` of all values."""
    if not values:
        return None
    return sorted(values)[max(ceil(percent / 100 * len(values)) - 1, 0)]


def jain(values: Sequence[float]) -> float | None:
    """Jain's index of fairness, ``(sum x)^2 / (n sum x^2)``: 1 for equal values, 1/n where one has all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, median, 90th and 99th percentile, and the largest."""
    return {
        "mean": mean(values),
        "p50": percentile(values, 50),
        "p90": percentile(values, 90),
        "p99": percentile(values, 99),
        "max": max(values, default=None),
    }
