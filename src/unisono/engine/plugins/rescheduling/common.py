"""What strategies of rescheduling share: which pods their jobs can miss, and where moved pods would fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.keys import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import fitted
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import open_nodes
from unisono.engine.plugins.tdm import spare
from unisono.engine.session.bundles import Surplus

if TYPE_CHECKING:
    from unisono.engine.session.session import Session


class Spares:
    """Which pods may leave: a gang keeps its minimum, and a budget in annotations is kept."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[str, Surplus] = {}
        self._budget: dict[str, int] = {}

    def copy(self) -> Spares:
        """The same, to try something."""
        found = Spares(self._session)
        found._left, found._budget = {key: one.copy() for key, one in self._left.items()}, dict(self._budget)
        return found

    def become(self, other: Spares) -> None:
        """Take over what was tried on a copy."""
        self._left, self._budget = other._left, other._budget

    def take(self, task: Task) -> bool:
        """Whether the pod can go; then it counts as gone. A job of a single pod can be moved: no others wait for it."""
        job = self._session.job(task.job)
        if job is None:
            return False
        notes = job.record.annotations
        if notes.get(JDB_MIN_AVAILABLE) or notes.get(JDB_MAX_UNAVAILABLE):
            left = self._budget.get(job.key)
            left = spare(job.record, job.counts) if left is None else left
            if left < 1:
                return False
            self._budget[job.key] = left - 1
        if len(job.record.tasks) == 1:
            return True
        if job.key not in self._left:
            self._left[job.key] = Surplus(self._session, job)
        return self._left[job.key].take(task)


class Room:
    """Room for moved pods on nodes that they may use; each takes its place."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._idle = np.maximum(session.nodes.future_idle, 0).copy()
        self._open: dict[int, BoolArray] = {}

    def copy(self) -> Room:
        """The same, to try something."""
        found = Room.__new__(Room)
        found._session, found._idle, found._open = self._session, self._idle.copy(), self._open
        return found

    def become(self, other: Room) -> None:
        """Take over what was tried on a copy."""
        self._idle = other._idle

    def open(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that selectors, affinity, taints, cordons and readiness let the class use."""
        found = self._open.get(pod_class.id)
        if found is None:
            found = self._open[pod_class.id] = open_nodes(pod_class, self._session.nodes)
        return found

    def fits(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that the class may use and that have room for one more pod of it."""
        return self.open(pod_class) & (self._idle[pod_class.rows] >= pod_class.amounts[:, None]).all(axis=0)

    def fill(self, pod_class: PodClass, column: int) -> None:
        """A pod of the class moves to a node."""
        self._idle[:, column] -= fitted(pod_class.vector, self._session.rows)

    def take(self, task: Task, besides: Iterable[int]) -> int:
        """Take room for a pod on a node that is none of ``besides``; the node's column, -1 where there is none."""
        fits = self.fits(task.pod_class)
        fits[list(besides)] = False
        if not fits.any():
            return -1
        column = int(fits.argmax())
        self.fill(task.pod_class, column)
        return column
