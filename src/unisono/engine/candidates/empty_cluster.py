"""What the cluster could hold of a class of pods: empty, and as it is now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Vector
from unisono.engine.answers import BoolArray
from unisono.engine.candidates.static_answers import StaticResults
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.amounts import tasks_fitting
from unisono.engine.session.session import Session


@dataclass(frozen=True, slots=True)
class EmptyFit:
    """How many tasks of a class the nodes would hold if they were empty.

    Attributes:
        total: over all nodes that the static filters allow.
        best: name of the node that holds most, ``""`` when none holds any.
        per_node: how many that node holds.
        allowed: number of nodes that the static filters allow.
        largest: per resource row the most that any allowed node has, ``[R]``.

    """

    total: int
    best: str
    per_node: int
    allowed: int
    largest: Vector


class EmptyCluster:
    """What the cluster could hold of each pod class if it were empty; computed once per session."""

    def __init__(self, session: Session, hooks: CombinedAnswers, static: StaticResults) -> None:
        self.session = session
        self.hooks = hooks
        self.static = static
        self._empty: dict[int, EmptyFit] = {}

    def empty(self, pod_class: PodClass) -> EmptyFit:
        """See `EmptyFit`; pods of daemons and of other schedulers do not count either."""
        found = self._empty.get(pod_class.id)
        if found is None:
            found = self._empty[pod_class.id] = self._measure(pod_class)
        return found

    def allowed(self, pod_class: PodClass) -> BoolArray:
        """``[N]`` nodes that the static filters allow."""
        return self.static.result(pod_class, self.session, self.hooks).allowed

    def _measure(self, pod_class: PodClass) -> EmptyFit:
        session = self.session
        allowed = self.allowed(pod_class)
        allocatable = session.nodes.allocatable[:, allowed]
        zeros = np.zeros(session.rows, dtype=np.int64)
        if not allocatable.shape[1]:
            return EmptyFit(0, "", 0, 0, zeros)
        room = tasks_fitting(allocatable, pod_class)
        if pod_class.host_ports:
            room = np.minimum(room, 1)
        best = int(room.argmax())
        columns = np.flatnonzero(allowed)
        name = session.snapshot.nodes.names[int(columns[best])] if room[best] > 0 else ""
        return EmptyFit(int(room.sum()), name, int(room[best]), int(allowed.sum()), allocatable.max(axis=1))
