"""Resource names as rows of int64 vectors.

Units, everywhere below the API: CPU in milli-cores, memory / ephemeral storage / huge pages in bytes, ``pods`` whole,
everything else in milli-units (one GPU is 1000), as `unisono.api.resources` produces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from unisono.api.resources import LARGEST
from unisono.errors import UnisonoError

Vector = npt.NDArray[np.int64]
"""Amounts by resource row, shape ``[R]``; a shorter vector means zero in the rows that it lacks."""

Matrix = npt.NDArray[np.int64]
"""Amounts by resource row and node, shape ``[R, N]``."""

CPU, MEMORY, PODS = 0, 1, 2


MOST_LISTED = 1024
"""Resource names that nodes and queues may state over the life of a cluster state."""

MOST_REQUESTED = 32
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

    """

    __slots__ = ("_listed", "_requested", "_rows", "names", "unlisted")

    def __init__(self) -> None:
        self.names: list[str] = ["cpu", "memory", "pods"]
        self.unlisted: int | None = None
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
