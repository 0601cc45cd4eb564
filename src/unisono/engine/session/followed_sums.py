"""Sums over the nodes of each HyperNode that follow what a session places."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.hypertree import Index
from unisono.cluster.resources import CEILING, Matrix

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

_PART = 8
"""Once more than this part of the nodes has changed, all are added up again."""


class FollowedSums:
    """Values of nodes and their sums; after a placement only the nodes that it touched are looked at again.

    Args:
        session: whose placements change the values.
        values_at: ``[..., M]`` the values of some columns of nodes as of now.

    Attributes:
        values: ``[..., N]`` as of the last call of `follow`; read only.
        sums: ``[..., H]`` their sums over the nodes of each HyperNode; read only.
    """

    def __init__(self, session: Session, values_at: Callable[[Index], Matrix]) -> None:
        self._session = session
        self._tree = session.snapshot.hyper_nodes
        self._values_at = values_at
        self._measure()

    def _measure(self) -> None:
        self._seen = len(self._session.touched)
        self.values = np.array(self._values_at(self._session.columns), dtype=np.int64)
        self.sums = self._tree.sums(self.values)
        nodes = max(self.values.shape[-1], 1)
        self._exact = not self.values.size or int(np.abs(self.values).max()) < CEILING // nodes

    def follow(self) -> FollowedSums:
        """Bring values and sums up to date; returns itself."""
        touched = self._session.touched
        if self._seen == len(touched):
            return self
        fresh = np.array(sorted(set(touched[self._seen :])), dtype=np.intp)
        if not self._exact or len(fresh) * _PART > self.values.shape[-1]:
            self._measure()
            return self
        self._seen = len(touched)
        now = self._values_at(fresh)
        changes = now - self.values[..., fresh]
        self.values[..., fresh] = now
        moved = changes.reshape(-1, len(fresh)).any(axis=0)
        self._tree.add_to_sums(self.sums, fresh[moved], changes[..., moved])
        if self._exact and now.size:
            self._exact = int(np.abs(now).max()) < CEILING // self.values.shape[-1]
        return self
