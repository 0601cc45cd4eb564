"""How full HyperNodes would be with a request, followed from placement to placement."""

from __future__ import annotations

from sys import maxsize

import numpy as np

from unisono.cluster.hypertree import NOWHERE, HyperNodeTree
from unisono.cluster.resources import Matrix, Vector
from unisono.engine.answers import FloatArray
from unisono.engine.plugins.network_topology_aware.domain_amounts import DomainAmounts

_MANY = 32
"""After so many placements on different nodes all HyperNodes are looked at again."""


class Filling:
    """Shares of the HyperNodes that would be in use with one request.

    Args:
        amounts: sums per HyperNode.
        request: ``[len(rows)]`` what is asked for of the rows of ``amounts``.
        weights: ``[len(rows)]`` how much each row counts.

    """

    def __init__(self, amounts: DomainAmounts, request: Vector, weights: FloatArray) -> None:
        self.amounts = amounts
        asked = request > 0
        self._weights: list[float] = weights[asked].tolist()
        self._rows = np.flatnonzero(asked)
        self._request = request[asked][:, None]
        self._total = sum(self._weights)
        self._asked = list(zip(self._rows.tolist(), request[asked].tolist(), self._weights, strict=True))
        self._share: FloatArray | None = None
        self._at = 0

    def share(self) -> FloatArray:
        """``[H]`` weighted mean over what is asked for; 0 where a resource would overflow. Do not change it."""
        used, log = self.amounts.used(), self.amounts.log
        if self._share is None or len(log) - self._at > _MANY:
            self._share = self._everywhere(used)
        elif self._at < len(log):
            tree = self.amounts.tree
            for at in {at for column in set(log[self._at :]) for at in tree.holders(column).tolist()}:
                self._share[at] = self._at_one(used, at)
        self._at = len(log)
        return self._share

    def _everywhere(self, used: Matrix) -> FloatArray:
        """``[H]`` the shares of all HyperNodes; sums go row by row, as in `_at_one`, so that both agree to the bit."""
        amounts, rows = self.amounts, self._rows
        after = used[rows] + self._request
        share: FloatArray = np.zeros(after.shape[1], dtype=np.float64)
        if self._total <= 0:
            return share
        for weight, part in zip(self._weights, after / amounts.floor[rows], strict=True):
            share += weight * part
        overflow = (after > amounts.allocatable[rows]).any(axis=0)
        return np.where(overflow, 0.0, share / self._total)

    def _at_one(self, used: Matrix, at: int) -> float:
        """The share of one HyperNode in plain numbers: a vector pass over a few costs ten times as much."""
        share = 0.0
        for row, request, weight in self._asked:
            after = used.item(row, at) + request
            whole = self.amounts.allocatable.item(row, at)
            if after > whole:
                return 0.0
            share += weight * (float(after) / float(max(whole, 1)))
        return share / self._total if self._total > 0 else 0.0

    def room(self, at: int) -> int | None:
        """How many such requests a HyperNode has room for; None where it has none, and its share stays 0."""
        used, whole = self.amounts.used(), self.amounts.allocatable
        most = min((whole.item(row, at) - used.item(row, at)) // request for row, request, _ in self._asked)
        return most if most > 0 else None


class FillingOfLines:
    """Points of nodes by how full the HyperNodes above them would be; see `LineScore`.

    A node outside of the HyperNodes of a tier counts as if that were full.

    Args:
        filling: shares of the HyperNodes.
        tree: the HyperNodes.
        weights: one per tier, from below; their sum is above 0.
        most: points where all are full.

    """

    def __init__(self, filling: Filling, tree: HyperNodeTree, weights: list[float], most: float) -> None:
        self.codes, owners = tree.lines
        self._owners = np.ascontiguousarray(owners.T)
        self._lines = owners
        self._filling = filling
        self._weights = np.array(weights, dtype=np.float64)[:, None]
        self._factor = most / sum(weights)
        self._share: FloatArray = np.ones(len(tree) + 1, dtype=np.float64)  # the last one stands for no HyperNode
        self._disjoint = tree.disjoint

    def points(self) -> FloatArray:
        """``[G]`` points of each line."""
        self._share[:-1] = self._filling.share()
        parts = self._share.take(self._owners)  # all tiers in one go: this runs once per placement
        parts *= self._weights
        total: FloatArray = np.add.reduce(parts, axis=0)
        total *= self._factor
        return total

    def steady(self, line: int) -> int:
        """A HyperNode becomes fuller for all of its lines at once, and no other one does, until a request overflows."""
        if not self._disjoint:
            return 0
        rooms = [self._filling.room(at) for at in self._lines[line].tolist() if at != NOWHERE]
        return min((room for room in rooms if room is not None), default=maxsize) - 1
