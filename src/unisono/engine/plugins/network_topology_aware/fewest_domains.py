"""How few domains can hold what a gang asks for, and how full it leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from sys import maxsize
from typing import Any

import numpy as np

from unisono.cluster.hypertree import NOWHERE, HyperNodeTree, Index
from unisono.cluster.resources import Matrix, Vector
from unisono.engine.answers import FloatArray
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import SubGroup

# Sums of allocatable and used resources per HyperNode, kept up to date through a session.


class DomainAmounts:
    """Sums over the nodes of each HyperNode, for some rows of resources: ``[len(rows), H]``.

    Attributes:
        log: columns of nodes under HyperNodes of which the use has changed: each time that `used` noticed, one for all
            that the same HyperNodes hold.
    """

    def __init__(self, session: Session, rows: Index) -> None:
        self.session = session
        self.rows = rows
        self.tree = session.snapshot.hyper_nodes
        self.log: list[int] = []
        self._at = -1
        self._known: Matrix = np.zeros((len(rows), 0), dtype=np.int64)
        self._used: Matrix = self._known

    @cached_property
    def allocatable(self) -> Matrix:
        """``[len(rows), H]``."""
        return self.tree.sums(self.session.nodes.allocatable[self.rows])

    @cached_property
    def floor(self) -> Matrix:
        """``allocatable``, at least 1: to divide by."""
        return np.maximum(self.allocatable, 1)

    def used(self) -> Matrix:
        """``[len(rows), H]`` as of now: only nodes that were touched since the last call are looked at."""
        touched = self.session.touched
        if self._at < 0:
            self._known = self.session.nodes.used[self.rows]
            self._used = self.tree.sums(self._known)
        elif self._at < len(touched):
            fresh = np.array(sorted(set(touched[self._at :])), dtype=np.intp)
            now = self.session.nodes.used[self.rows[:, None], fresh]
            changes = now - self._known[:, fresh]
            moved = changes.any(axis=0)
            if moved.any():
                fresh, changes = fresh[moved], changes[:, moved]
                self._known[:, fresh] += changes
                self.tree.add_to_sums(self._used, fresh, changes)
                self.log += self.tree.one_a_line(fresh.tolist())
        self._at = len(touched)
        return self._used


# How full HyperNodes would be with a request, followed from placement to placement.

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


# In which HyperNodes of a larger domain a sub-group is placed, so that it needs as few of them as possible.

_ALL, _NONE = slice(None), slice(0)


class FewestDomains:
    """The lowest HyperNodes of a domain, in the order in which a sub-group had better fill them.

    Tier by tier from above: first the HyperNode that has tasks of it, then the one with room for most of those that
    are left, and of several with room for all of them the one with least. The tasks count as if they were all alike.

    Args:
        session: how things stand; nodes are looked at again when it says that they were touched.
        tree: the HyperNodes.
        group: the sub-group, with tasks.
        columns: nodes of the domain.
        leaves: the lowest HyperNodes of these nodes.
        codes: which of ``leaves`` is each node's.

    Attributes:
        own: ``[leaves]`` tasks of the sub-group that have a place there, as of the last call of `points`; read only.
        changed: the leaves of which the last call of `points` found points or ``own`` other than the call before.
    """

    def __init__(
        self,
        session: Session,
        tree: HyperNodeTree,
        group: SubGroup,
        columns: Index,
        leaves: Sequence[int],
        codes: Index,
    ) -> None:
        self.group, self.columns = group, columns
        self._session, self._tree, self._leaves, self._codes = session, tree, leaves, codes
        pod_class = group.tasks[0].pod_class
        self._rows, self._amounts = pod_class.rows[:, None], np.maximum(pod_class.amounts, 1)[:, None]
        self._at = {column: position for position, column in enumerate(columns.tolist())}
        first = np.unique(codes, return_index=True)[1]
        self._owners = [
            np.unique(tree.at_tier[tier][columns[first]], return_inverse=True)[1].reshape(-1) for tier in tree.levels
        ]
        self._seen = len(session.touched)
        self._known: dict[bytes, int] = {}
        self._fits = self._fitting(columns)
        self._points: FloatArray | None = None
        self.changed: slice | int = _ALL

    def points(self) -> FloatArray:
        """``[leaves]`` 1 for the first HyperNode in the order, less for each that follows, and never 0; read only."""
        group = self.group
        rest = len(group.tasks) - sum(group.on.values())
        if rest < 1:
            self.own, self.changed = self._count(), _ALL
            return np.zeros(len(self._leaves), dtype=np.float64)
        moved = self._follow()
        if self._points is None or not self._keeps_order(moved, rest):
            self._points, self.changed = self._sort(rest), _ALL
            self._on = dict(group.on)
        self._rest = rest
        return self._points

    def _fitting(self, columns: Index) -> Vector:
        """``[columns]`` tasks for which nodes have room, all of the sub-group's at most."""
        nodes, where = self._session.nodes, (self._rows, columns)
        fitting = (nodes.allocatable[where] - nodes.used[where]) // self._amounts
        most: Vector = fitting.min(axis=0, initial=len(self.group.tasks)).clip(min=0)
        return most

    def _count(self) -> FloatArray:
        on = self.group.on
        return np.array([on.get(leaf, 0) for leaf in self._leaves], dtype=np.float64)

    def _follow(self) -> dict[int, int]:
        """Look again at touched nodes; by how much the room of each has shrunk, by its position, where it changed."""
        touched = self._session.touched
        fresh = [column for column in touched[self._seen :] if column in self._at]
        self._seen = len(touched)
        moved: dict[int, int] = {}
        for column in sorted(set(fresh)) if len(fresh) > 1 else fresh:
            position = self._at[column]
            now = self._fitting_one(column)
            if by := int(self._fits[position]) - now:
                moved[position] = by
                self._fits[position] = now
        return moved

    def _fitting_one(self, column: int) -> int:
        """As `_fitting`; nodes alike that hold as much are worked out once."""
        state = self._session.matrix[:, column].tobytes()
        count = self._known.get(state)
        if count is None:
            count = self._known[state] = int(self._fitting(np.array([column], dtype=np.intp))[0])
        return count

    def _keeps_order(self, moved: dict[int, int], rest: int) -> bool:
        """Whether the order surely is the same as last time; that is so for most tasks of a long run.

        The next task went where the order begins, and there is room for more: then all HyperNodes above that place
        stay first in their tiers. The others stay as they are while none begins to have room for all tasks left.
        """
        if not moved and rest == self._rest and self.group.on == self._on:
            self.changed = _NONE
            return True
        if list(moved.values()) != [1] or rest != self._rest - 1 or rest < self._largest or rest in self._held:
            return False
        leaf = int(self._codes[next(iter(moved))])
        at = self._leaves[leaf]
        self._on[at] = self._on.get(at, 0) + 1
        if leaf != self._first or self.group.on != self._on:
            return False
        self.own[leaf] += 1
        self.changed = leaf
        self._room -= 1
        return self._room > 0

    def _sort(self, rest: int) -> FloatArray:
        leaves = self._leaves
        room = np.bincount(self._codes, weights=np.minimum(self._fits, rest), minlength=len(leaves))
        self.own = self._count()
        keys: list[np.ndarray[Any, Any]] = []
        self._held: set[float] = set()
        for owner in self._owners:  # np.lexsort takes the last key first
            held, has = np.bincount(owner, weights=room), np.bincount(owner, weights=self.own)
            self._held.update(held.tolist())
            keys += [held[owner], -np.minimum(held, rest)[owner], -np.where(held > 0, has, 0.0)[owner]]
        order = np.lexsort(keys)
        self._first = int(order[0])
        self._room = float(room[self._first])
        self._largest = int(self._fits.max(initial=0))
        points: FloatArray = np.empty(len(leaves), dtype=np.float64)
        points[order] = 1.0 - np.arange(len(leaves)) / len(leaves)
        return points * (1.0 - 1e-9)
