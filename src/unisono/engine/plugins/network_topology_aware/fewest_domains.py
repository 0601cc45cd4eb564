"""In which HyperNodes of a larger domain a sub-group is placed, so that it needs as few of them as possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unisono.cluster.hypertree import HyperNodeTree, Index
from unisono.cluster.resources import Vector
from unisono.engine.answers import FloatArray
from unisono.engine.session.session import Session
from unisono.engine.session.sub_groups import SubGroup

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
        known = self._known.get(state)
        if known is None:
            known = self._known[state] = int(self._fitting(np.array([column], dtype=np.intp))[0])
        return known

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
