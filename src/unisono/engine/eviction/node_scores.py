"""Scores of all nodes for a class of tasks, as if evictions could make room on every one of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import Veto
from unisono.engine.candidates.static_answers import StaticResult
from unisono.engine.candidates.table import NOWHERE, CandidateTable, Demand
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session

__all__ = ["NOWHERE", "RoomTable"]


class RoomDemand(Demand):
    """A demand for which evictions may make room."""

    def heeds(self, veto: Veto) -> bool:
        """Only those for good."""
        return veto.reason.unresolvable and not veto.now


class RoomTable(CandidateTable):
    """A table of candidates that looks at no resources, and only at vetoes that no eviction can change."""

    def __init__(self, pod_class: PodClass, session: Session, hooks: CombinedAnswers, static: StaticResult) -> None:
        super().__init__(RoomDemand(pod_class, future=True), session, hooks, static)
        self.single = None  # which looks at resources

    def fits(self, view: NodeView) -> npt.NDArray[np.bool_]:
        """Everywhere."""
        return np.ones(view.size, dtype=np.bool_)
