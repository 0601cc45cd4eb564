"""Means of paired differences with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantiles 0.975 of Student's t by degrees of freedom, from 1."""
_COARSE = ((40, 2.042), (60, 2.021), (120, 2.000), (10**9, 1.980))
"""Beyond the table: the value of the next smaller number of degrees of freedom, which is on the safe side."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of so many values; ``half`` is half the width of its 95 % interval, None for a single value."""

    mean: float
    half: float | None
    count: int

    @property
    def clear(self) -> bool:
        """The interval does not hold 0."""
        return self.half is not None and abs(self.mean) > self.half


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % interval by Student's t; at least one value."""
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Interval(mean, None, count)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Interval(mean, student(count - 1) * deviation / sqrt(count), count)


def student(freedom: int) -> float:
    """Quantile 0.975 of Student's t."""
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    return next(value for below, value in _COARSE if freedom < below)
