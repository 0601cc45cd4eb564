"""binpack: prefers nodes that the pod fills up, by a weighted mean over its resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import ResourceRegistry
from unisono.engine.answers import FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common import formulas, formulas_at
from unisono.engine.session.node_view import NodeAt, NodeView, as_slice

if TYPE_CHECKING:
    from unisono.engine.session.session import Session

_WEIGHT = Argument("binpack.weight", "int", 1, "multiplies the score; 0 switches the plug-in off")
_CPU = Argument("binpack.cpu", "int", 1, "weight of cpu; negative means 1")
_MEMORY = Argument("binpack.memory", "int", 1, "weight of memory; negative means 1")
_RESOURCES = Argument("binpack.resources", "text", "", "further resource names, separated by commas")
_RESOURCE = "binpack.resources."

_Demand = tuple[list[int], list[int], list[int]]


class BinpackPlugin(Plugin):
    """Scores nodes by how full they would be."""

    name = "binpack"
    known_arguments = (
        _WEIGHT,
        _CPU,
        _MEMORY,
        _RESOURCES,
        Argument(_RESOURCE + "*", "int", 1, "weight of one of those; negative means 1"),
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self._demands: dict[int, _Demand] = {}
        self.weight = int(argument_value(_WEIGHT, self.arguments))
        self.weights = {"cpu": self._weight_of(_CPU), "memory": self._weight_of(_MEMORY)}
        for name in str(argument_value(_RESOURCES, self.arguments)).split(","):
            if name.strip():
                own = Argument(_RESOURCE + name.strip(), "int", 1, "")
                self.weights[name.strip()] = self._weight_of(own)

    def _weight_of(self, argument: Argument) -> int:
        weight = int(argument_value(argument, self.arguments))
        return 1 if weight < 0 else weight

    def open(self, session: Session) -> None:
        """Keep the names of resources."""
        self.registry = session.registry

    def _demand(self, pod_class: PodClass, registry: ResourceRegistry) -> _Demand:
        """What the class requests of the resources that count, their rows, and their weights."""
        found = self._demands.get(pod_class.id)
        if found is None:
            names = [name for name in pod_class.requests if name in self.weights]
            rows = registry.rows(names)
            found = [pod_class.requests[name] for name in names], rows, [self.weights[name] for name in names]
            self._demands[pod_class.id] = found
        return found

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """100 times the weight on a node that would be full, 0 where a weighted resource would overflow."""
        request, rows, weights = self._demand(pod_class, nodes.table.registry)
        if not self.weight or not rows:
            return None
        part = as_slice(rows)
        each, weight = np.array(request, dtype=np.int64), np.array(weights, dtype=np.int64)
        return self.weight * formulas.binpack(each, nodes.used[part], nodes.allocatable[part], weight)

    def score_at(self, pod_class: PodClass, node: NodeAt) -> float | None:
        """The same for one node."""
        request, rows, weights = self._demand(pod_class, self.registry)
        if not self.weight or not rows:
            return None
        used = [node.used[row] for row in rows]
        return self.weight * formulas_at.binpack(request, used, [node.allocatable[row] for row in rows], weights)
