"""Points of the lowest HyperNodes of a domain for a sub-group, of which a placement changes few."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unisono.cluster.hypertree import NOWHERE, HyperNodeTree
from unisono.engine.answers import FloatArray
from unisono.engine.plugins.network_topology_aware.fewest_domains import FewestDomains

Nearness = tuple[FloatArray, FloatArray]
"""``[leaves]`` 1 for a HyperNode itself, down to 0 where only the root joins a leaf to it; 1 for the nearest leaves."""


class LeafPoints:
    """Near leaves before far ones, of equally near ones those with most tasks, then as `FewestDomains` says.

    Args:
        order: that of the leaves.
        tree: the HyperNodes.
        leaves: the lowest HyperNodes of the domain.
        scale: what a leaf gets that is the sub-group's own HyperNode.
        near: nearness by HyperNode and domain, kept for the session.

    """

    def __init__(
        self,
        order: FewestDomains,
        tree: HyperNodeTree,
        leaves: Sequence[int],
        scale: float,
        near: dict[tuple[int, int], Nearness],
    ) -> None:
        self.order = order
        self._tree, self._leaves, self._scale, self._near = tree, leaves, scale, near
        self._share = 1.0 / max(len(order.group.tasks), 1)
        tiers = max(tree.levels[-1] - tree.levels[0], 1)
        self._step = min(self._share, 1.0 / tiers)  # no more than a tier is worth
        self._at = NOWHERE
        self._points: FloatArray = np.zeros(len(leaves), dtype=np.float64)

    def points(self) -> FloatArray:
        """``[leaves]`` the points as things stand; read only."""
        filling, at = self.order.points(), self.order.group.at
        where, self._at = self.order.changed if at == self._at else slice(None), at
        if at == NOWHERE:
            return filling * self._scale
        if where == slice(None):
            self._nearness, self._nearest = self._nearness_to(at)
        near = self._nearness[where] + self._nearest[where] * self.order.own[where] * self._share
        self._points[where] = (near + filling[where] * self._step) * self._scale
        return self._points

    def _nearness_to(self, at: int) -> Nearness:
        found = self._near.get((at, id(self.order.columns)))
        if found is None:
            tree, low, high = self._tree, self._tree.levels[0], self._tree.levels[-1]
            tiers = [int(tree.tiers[tree.common(at, leaf)]) for leaf in self._leaves]
            near = np.array(
                [
                    1.0 if leaf == at or high == low else (high - tier) / (high - low)
                    for leaf, tier in zip(self._leaves, tiers, strict=True)
                ],
                dtype=np.float64,
            )
            nearest = np.equal(near, near.max(initial=0.0)).astype(np.float64)
            found = self._near[at, id(self.order.columns)] = (near, nearest)
        return found
