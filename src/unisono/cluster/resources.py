"""Resource names as rows of int64 vectors.

Units, everywhere below the API: CPU in milli-cores, memory / ephemeral storage / huge pages in bytes, ``pods`` whole,
everything else in milli-units (one GPU is 1000), as `unisono.api.resources` produces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.int64]
"""Amounts by resource row, shape ``[R]``; a shorter vector means zero in the rows that it lacks."""

Matrix = npt.NDArray[np.int64]
"""Amounts by resource row and node, shape ``[R, N]``."""

CPU, MEMORY, PODS = 0, 1, 2


class ResourceRegistry:
    """Gives each resource name a row; rows are never taken back, so vectors made earlier stay valid.

    Rows 0, 1 and 2 are ``cpu``, ``memory`` and ``pods``.
    """

    __slots__ = ("_rows", "names")

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods"]
        self._rows: dict[str, int] = {name: row for row, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def row(self, name: str) -> int:
        """Row of ``name``, new if it was unknown."""
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = len(self.names)
            self.names.append(name)
        return row

    def find(self, name: str) -> int | None:
        """Row of ``name``, or None when nobody has named it yet."""
        return self._rows.get(name)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """``[R]`` vector of ``amounts`` (engine units); new names get rows."""
        rows = [self.row(name) for name in amounts]
        vector = np.zeros(len(self.names), dtype=np.int64)
        for row, amount in zip(rows, amounts.values(), strict=True):
            vector[row] = amount
        return vector

    def zeros(self) -> Vector:
        """A zero vector as long as the registry is now."""
        return np.zeros(len(self.names), dtype=np.int64)

    def amounts(self, vector: Vector) -> dict[str, int]:
        """The non-zero entries of ``vector`` by name."""
        return {self.names[row]: int(vector[row]) for row in np.flatnonzero(vector)}

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
