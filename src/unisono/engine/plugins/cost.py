"""cost: prefers nodes and clusters in which a job costs less.

Prices stand in the annotation ``unisono.io/prices`` of nodes; a fleet's hub gives each node those of its member. Nodes
without prices cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unisono.api.annotations import PRICES
from unisono.api.node_usage import cost_per_hour, parse_prices
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.node_view import NodeView

if TYPE_CHECKING:
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup

_WEIGHT = Argument("cost.weight", "int", 10, "multiplies all points; negative means 1")


class CostPlugin(Plugin):
    """100 times the weight where nothing is to be paid, 0 at the highest price of all."""

    name = "cost"
    known_arguments = (_WEIGHT,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        weight = int(argument_value(_WEIGHT, self.arguments))
        self.weight = 1 if weight < 0 else weight

    def open(self, session: Session) -> None:
        """Read the prices, each text once."""
        self.tree = session.snapshot.hyper_nodes
        texts: dict[str, int] = {}
        # [N] which of the lists of prices is each node's.
        codes = [texts.setdefault(facts.annotations.get(PRICES, ""), len(texts)) for facts in session.nodes.facts]
        self.codes = np.array(codes, dtype=np.intp)
        self.prices = [_prices(text) for text in texts]
        self.priced = any(self.prices)

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Points of each node for one pod."""
        if not self.priced or not self.weight:
            return None
        costs = self._costs(pod_class.requests)
        return self._points(costs[self.codes[nodes.columns]], float(costs.max()))

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """Points of each domain for all tasks of a group, at the mean price of its nodes."""
        if not self.priced or not self.weight:
            return np.zeros(len(domains))
        request: Counter[str] = Counter()
        for task in group.tasks:
            request.update(task.pod_class.requests)
        costs = self._costs(request)
        own = [costs[self.codes[self.tree.columns[at]]] for at in domains]
        means = np.array([each.mean() if len(each) else 0.0 for each in own], dtype=np.float64)
        return self._points(means, float(costs.max()))

    def _costs(self, request: dict[str, int] | Counter[str]) -> FloatArray:
        """Cost of an hour by list of prices."""
        return np.array([cost_per_hour(request, prices) for prices in self.prices], dtype=np.float64)

    def _points(self, costs: FloatArray, highest: float) -> FloatArray:
        if highest <= 0:
            return np.zeros(len(costs))
        return 100.0 * self.weight * (1.0 - costs / highest)


def _prices(text: str) -> dict[str, float]:
    """The prices of a text; one that cannot be read says nothing."""
    try:
        return parse_prices(text)
    except ValueError:
        return {}
