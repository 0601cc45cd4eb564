"""Sums of allocatable and used resources per HyperNode, kept up to date through a session."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.hypertree import Index
from unisono.cluster.resources import Matrix

if TYPE_CHECKING:
    from unisono.engine.session.session import Session


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
