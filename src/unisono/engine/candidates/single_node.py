"""The score of one node for a class, in plain numbers: what a vector pass answers, for a thirtieth of its costs."""

from __future__ import annotations

from math import isfinite

from unisono.cluster.podclass import PodClass
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugin_host.combined_answers import CombinedAnswers
from unisono.engine.plugin_host.tiers import Asked
from unisono.engine.session.node_view import NodeAt
from unisono.engine.session.session import Session

NOWHERE = float("-inf")


class SingleNodeScore:
    """Scores one node at a time for one class; see `of` for when that is possible."""

    def __init__(self, pod_class: PodClass, session: Session, filters: Asked, scores: Asked, *, future: bool) -> None:
        self.pod_class = pod_class
        self.session = session
        self.future = future
        self._filters = [method for _, method in filters]
        self._scores = [method for _, method in scores]
        self._demand = list(zip(pod_class.rows.tolist(), pod_class.amounts.tolist(), strict=True))

    @classmethod
    def of(
        cls, pod_class: PodClass, session: Session, hooks: CombinedAnswers, silent: set[Plugin], *, future: bool
    ) -> SingleNodeScore | None:
        """None unless each plug-in that filters or scores the class by vectors can do so by single nodes, too."""
        chosen: list[Asked] = []
        for vector, single in (("filter", "filter_at"), ("score", "score_at")):
            concerned = [plugin for plugin, _ in hooks.flat[vector] if plugin not in silent]
            asked = [entry for entry in hooks.flat[single] if entry[0] not in silent]
            if [plugin for plugin, _ in asked] != concerned:
                return None
            chosen.append(asked)
        return cls(pod_class, session, *chosen, future=future)

    def value(self, column: int) -> float:
        """Dynamic points of a node as it is now, ``-inf`` where resources or a filter refuse it; may raise."""
        session, pod_class = self.session, self.pod_class
        node = NodeAt(session.matrix[:, column].tolist(), session.rows, future=self.future)
        looks_ahead = self.future or session.pipelining
        for row, wanted in self._demand:
            idle = node.allocatable[row] - node.used[row] - wanted
            if idle < 0 and not self.future:
                return NOWHERE
            if looks_ahead and idle + node.releasing[row] - node.pipelined[row] < 0:
                return NOWHERE
        for refuses in self._filters:
            if refuses(pod_class, node):
                return NOWHERE
        points = 0.0
        for score in self._scores:
            part = score(pod_class, node)
            if part is not None:
                points += part
        if not isfinite(points):
            raise ValueError("points are not finite")
        return points
