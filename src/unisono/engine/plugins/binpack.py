"""binpack: prefers nodes that the pod fills up, by a weighted mean over its resources."""

from __future__ import annotations

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray
from unisono.engine.config import PluginConfig
from unisono.engine.config_arguments import Argument, argument_value
from unisono.engine.plugin import Plugin
from unisono.engine.plugins.formulas import binpack
from unisono.engine.view import NodeView

_WEIGHT = Argument("binpack.weight", "int", 1, "multiplies the score; 0 switches the plug-in off")
_CPU = Argument("binpack.cpu", "int", 1, "weight of cpu; negative means 1")
_MEMORY = Argument("binpack.memory", "int", 1, "weight of memory; negative means 1")
_RESOURCES = Argument("binpack.resources", "text", "", "further resource names, separated by commas")
_RESOURCE = "binpack.resources."


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
        self.weight = int(argument_value(_WEIGHT, self.arguments))
        self.weights = {"cpu": self._weight_of(_CPU), "memory": self._weight_of(_MEMORY)}
        for name in str(argument_value(_RESOURCES, self.arguments)).split(","):
            if name.strip():
                own = Argument(_RESOURCE + name.strip(), "int", 1, "")
                self.weights[name.strip()] = self._weight_of(own)

    def _weight_of(self, argument: Argument) -> int:
        weight = int(argument_value(argument, self.arguments))
        return 1 if weight < 0 else weight

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """100 times the weight on a node that would be full, 0 where a weighted resource would overflow."""
        names = [name for name in pod_class.requests if name in self.weights]
        if not self.weight or not names:
            return None
        rows = nodes.table.registry.rows(names)
        weights = np.array([self.weights[name] for name in names], dtype=np.int64)
        used = nodes.used[rows]
        return self.weight * binpack(pod_class.vector[rows], used, nodes.allocatable[rows], weights)
