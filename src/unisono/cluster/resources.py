"""Resource names as rows of int64 vectors, and sums of amounts that never wrap."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from unisono.api.licenses import is_floating
from unisono.api.resources import LARGEST
from unisono.errors import UnisonoError

# Resource names as rows of int64 vectors.
#
# Units, everywhere below the API: CPU in milli-cores, memory / ephemeral storage / huge pages in bytes, ``pods`` whole,
# everything else in milli-units (one GPU is 1000), as `unisono.api.resources` produces them.

Vector = npt.NDArray[np.int64]
"""Amounts by resource row, shape ``[R]``; a shorter vector means zero in the rows that it lacks."""

Matrix = npt.NDArray[np.int64]
"""Amounts by resource row and node, shape ``[R, N]``."""

CPU, MEMORY, PODS = 0, 1, 2

MOST_LISTED = 1024
"""Resource names that nodes and queues may state over the life of a cluster state."""

MOST_REQUESTED = 64
"""Rows for names that only pods and PodGroups use; a user may invent any number of names."""

UNLISTED = "resources that no node offers"
"""Name of the row that further such names share; no resource can have this name."""


class ResourceRegistry:
    """Gives resource names rows; rows are never taken back, so vectors made earlier stay valid.

    Rows 0, 1 and 2 are ``cpu``, ``memory`` and ``pods``. A name that a node or a queue states has a row of its own. Of
    the names that only pods and PodGroups use, the first `MOST_REQUESTED` have one; the others share the row
    `UNLISTED`, of which no node has anything, so pods that request them fit nowhere.

    Attributes:
        names: by row.
        unlisted: the shared row, None while it is not needed.
        floating: rows of floating resources, which lie on no node and have a limit of their own.
    """

    __slots__ = ("_listed", "_requested", "_rows", "floating", "names", "unlisted")

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods"]
        self.unlisted: int | None = None
        self.floating: list[int] = []
        self._rows: dict[str, int] = {name: row for row, name in enumerate(self.names)}
        self._requested: set[str] = set()
        self._listed: set[str] = set()

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """Row of a name that a node, a queue or the configuration states; new if it had none."""
        row = self._rows.get(name)
        if row is None:
            row = self._add(name)
            if self.unlisted is not None:
                self._listed.add(name)
        else:
            self._requested.discard(name)
        return row

    def requested(self, name: str) -> int:
        """Row in which requests for ``name`` count: its own, or `UNLISTED`."""
        row = self._rows.get(name)
        if row is not None:
            return row
        if len(self._requested) < MOST_REQUESTED:
            self._requested.add(name)
            return self._add(name)
        if self.unlisted is None:
            self.unlisted = self._add(UNLISTED)
        return self.unlisted

    def _add(self, name: str) -> int:
        row = self._rows[name] = len(self.names)
        self.names.append(name)
        if is_floating(name):
            self.floating.append(row)
        return row

    def check(self, names: Iterable[str]) -> None:
        """Refuse names that a node or a queue states when all of them together would be more than `MOST_LISTED`."""
        fresh = {name for name in names if name not in self._rows}
        if len(self._rows) - len(self._requested) + len(fresh) > MOST_LISTED and fresh:
            raise UnisonoError(
                f"no more than {MOST_LISTED} resource names can be scheduled; {min(fresh)} is one too many"
            )

    def take_listed(self) -> frozenset[str]:
        """Names that got a row of their own since the last call, and may have counted as `UNLISTED` before."""
        if not self._listed:
            return frozenset()
        listed, self._listed = frozenset(self._listed), set()
        return listed

    def find(self, name: str) -> int | None:
        """The row of its own that ``name`` has, or None."""
        return self._rows.get(name)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """``[R]`` vector of requested ``amounts`` (engine units); new names get rows as `requested` says."""
        rows = [self.requested(name) for name in amounts]
        vector = np.zeros(len(self.names), dtype=np.int64)
        for row, amount in zip(rows, amounts.values(), strict=True):
            vector[row] = amount if row != self.unlisted else min(int(vector[row]) + amount, LARGEST)
        return vector

    def zeros(self) -> Vector:
        """A zero vector as long as the registry is now."""
        return np.zeros(len(self.names), dtype=np.int64)

    def amounts(self, vector: Vector) -> dict[str, int]:
        """The non-zero entries of ``vector`` by name, without those that have no row of their own."""
        return {self.names[row]: int(vector[row]) for row in np.flatnonzero(vector) if row != self.unlisted}

    def rows(self, names: Iterable[str]) -> list[int]:
        """Rows of ``names``, in their order."""
        return [self.row(name) for name in names]


def fitted(vector: Vector, size: int) -> Vector:
    """``vector`` padded with zeros to ``size`` rows; the same object when it is long enough."""
    if len(vector) >= size:
        return vector
    wide = np.zeros(size, dtype=np.int64)
    wide[: len(vector)] = vector
    return wide


def add(total: Vector, vector: Vector, sign: int = 1) -> Vector:
    """``total + sign * vector``, in place where ``total`` is long enough; returns the sum."""
    if len(total) != len(vector):
        total = fitted(total, len(vector))
        total[: len(vector)] += sign * vector
    elif sign == 1:
        total += vector
    else:
        total += sign * vector
    return total


def is_scheduled_resource(name: str) -> bool:
    """Whether a resource name takes part in scheduling: quota names (``count/pods``, ``requests.cpu``) do not."""
    if name in _NATIVE or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith(("count/", "requests.", "limits."))


_NATIVE = frozenset(("cpu", "memory", "pods", "ephemeral-storage"))


def scheduled(amounts: Mapping[str, int]) -> dict[str, int]:
    """``amounts`` without the names that scheduling ignores."""
    return {name: amount for name, amount in amounts.items() if is_scheduled_resource(name)}


# Sums of amounts that never wrap: exact while they are below `CEILING`, and that beyond it.
#
# An amount is at most 2^56 (`unisono.api.resources.LARGEST`), and its bearers are few in any sane cluster. 128 of them
# fill an int64 all the same, and pods are for any user to make. So what is large is added up in two halves of 32 bits,
# which stay exact for 2^31 summands and forget nothing when summands leave again.

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
