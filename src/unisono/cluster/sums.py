"""Sums of amounts that never wrap: exact while they are below `CEILING`, and that beyond it.

An amount is at most 2^56 (`unisono.api.resources.LARGEST`), and its bearers are few in any sane cluster. 128 of them
fill an int64 all the same, and pods are for any user to make. So what is large is added up in two halves of 32 bits,
which stay exact for 2^31 summands and forget nothing when summands leave again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from unisono.cluster.resources import Vector

CEILING: Final = 2**60
"""The most that a sum says; a few of them can be added without care."""

LARGE: Final = 2**40
"""A million summands below this stay below `CEILING`: they are added as they are."""

_HALF: Final = 32
_MASK: Final = 2**_HALF - 1
_FULL: Final = CEILING >> _HALF

Ints = npt.NDArray[np.int64]
K = TypeVar("K", bound=Hashable)


class WideSum:
    """A sum of arrays of amounts (none negative) that summands may leave again."""

    __slots__ = ("_high", "_low")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high: Ints = np.zeros(shape, dtype=np.int64)
        self._low: Ints = np.zeros(shape, dtype=np.int64)

    def add(self, amounts: Ints, sign: int = 1) -> None:
        """Add amounts (-1: take them away); rows that the last axis of the sum lacks are made."""
        width = amounts.shape[-1]
        self.widen(width)
        self._high[..., :width] += sign * (amounts >> _HALF)
        self._low[..., :width] += sign * (amounts & _MASK)

    def widen(self, size: int) -> None:
        """Give the last axis at least ``size`` rows."""
        missing = size - self._high.shape[-1]
        if missing > 0:
            pad = [(0, 0)] * (self._high.ndim - 1) + [(0, missing)]
            self._high, self._low = np.pad(self._high, pad), np.pad(self._low, pad)

    def value(self) -> Ints:
        """The sum, at most `CEILING`."""
        return _joined(self._high, self._low)

    def copy(self) -> WideSum:
        """The same sum, apart from this one."""
        fresh = WideSum((0,))
        fresh._high, fresh._low = self._high.copy(), self._low.copy()
        return fresh

    @property
    def empty(self) -> bool:
        """Whether it is zero everywhere."""
        return not (self._high.any() or self._low.any())


class LargeSums(Generic[K]):
    """Sums of large vectors by holder, and by how much each step moves what the holder's sum says."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[K, WideSum] = {}

    def move(self, holder: K, vector: Vector, sign: int) -> Vector:
        """Add a vector (-1: take it away) and answer by how much the holder's value changes, ``[len(vector)]``."""
        held = self._sums.get(holder)
        if held is None:
            held = self._sums[holder] = WideSum((len(vector),))
        before = held.value()[: len(vector)]
        held.add(vector, sign)
        after = held.value()[: len(vector)]
        if held.empty:
            del self._sums[holder]
        return np.asarray(after - np.pad(before, (0, len(after) - len(before))), dtype=np.int64)

    def drop(self, holder: K) -> None:
        """Forget a holder."""
        self._sums.pop(holder, None)

    def copy(self) -> LargeSums[K]:
        """The same sums, apart from these."""
        fresh = LargeSums[K]()
        fresh._sums = {holder: held.copy() for holder, held in self._sums.items()}
        return fresh

    def __len__(self) -> int:
        """Number of holders of large amounts."""
        return len(self._sums)


def total(amounts: npt.NDArray[Any], axis: int) -> Ints:
    """Sum of amounts along an axis, at most `CEILING` and at least its negative."""
    if amounts.shape[axis] and amounts.size and int(np.abs(amounts).max()) >= CEILING // amounts.shape[axis]:
        return _joined((amounts >> _HALF).sum(axis=axis), (amounts & _MASK).sum(axis=axis))
    return np.asarray(amounts.sum(axis=axis), dtype=np.int64)


def totals_from(amounts: Ints, starts: npt.NDArray[np.intp]) -> Ints:
    """Sums of the runs of the last axis that begin at ``starts`` (as ``np.add.reduceat``), each at most `CEILING`."""
    if amounts.size and int(np.abs(amounts).max()) >= CEILING // amounts.shape[-1]:
        high, low = (np.add.reduceat(half, starts, axis=-1) for half in (amounts >> _HALF, amounts & _MASK))
        return _joined(high, low)
    return np.asarray(np.add.reduceat(amounts, starts, axis=-1), dtype=np.int64)


def is_large(vector: Vector) -> bool:
    """Whether a vector must not be added without care."""
    return bool((vector >= LARGE).any())


def _joined(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> Ints:
    """``high * 2^32 + low``, kept within `CEILING` either way."""
    high = high + (low >> _HALF)
    bounded = np.clip(high, -_FULL, _FULL - 1)
    exact = (bounded << _HALF) + (low & _MASK)
    return np.asarray(np.where(high >= _FULL, CEILING, np.where(high < -_FULL, -CEILING, exact)), dtype=np.int64)
