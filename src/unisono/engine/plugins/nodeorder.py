"""nodeorder: scores of kube-scheduler, each 0 to 100 times its weight, summed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU, MEMORY
from unisono.engine.answers import FloatArray, Normalise, RawScore
from unisono.engine.config_arguments import Argument, argument_value
from unisono.engine.plugin import Plugin
from unisono.engine.plugins.formulas import balanced_allocation, least_allocated, most_allocated
from unisono.engine.plugins.node_selectors import match_term
from unisono.engine.plugins.taints import discouraging, per_node
from unisono.engine.view import NodeView

_LEAST = Argument("leastrequested.weight", "int", 1, "prefers nodes with much free cpu and memory")
_MOST = Argument("mostrequested.weight", "int", 0, "prefers nodes with little free cpu and memory")
_BALANCED = Argument("balancedresource.weight", "int", 1, "prefers nodes whose cpu, memory and GPU use stays even")
_AFFINITY = Argument("nodeaffinity.weight", "int", 2, "preferred node affinity")
_TAINTS = Argument("tainttoleration.weight", "int", 3, "avoids taints PreferNoSchedule")

GPU = "nvidia.com/gpu"
_EVEN = np.array([1, 1], dtype=np.int64)


class NodeOrderPlugin(Plugin):
    """Prefers nodes by free resources, balance, preferred affinity and preferred taints."""

    name = "nodeorder"
    known_arguments = (
        _LEAST,
        _MOST,
        _AFFINITY,
        Argument("podaffinity.weight", "int", 2, "preferred inter-pod affinity", effective=False),
        _BALANCED,
        _TAINTS,
        Argument("imagelocality.weight", "int", 1, "images that a node already has", effective=False),
        Argument("podtopologyspread.weight", "int", 2, "soft topology spread", effective=False),
    )

    def _weight(self, argument: Argument) -> int:
        return int(argument_value(argument, self.arguments))

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """Preferred node affinity and PreferNoSchedule taints, raw; the engine normalises over the candidates."""
        scores: list[RawScore] = []
        weight = self._weight(_AFFINITY)
        affinity = pod_class.affinity.node_affinity if pod_class.affinity else None
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else None
        if weight and preferred:
            raw = np.zeros(nodes.size, dtype=np.float64)
            for term in preferred:
                if term.weight and term.preference is not None:
                    raw += term.weight * match_term(term.preference, nodes)
            scores.append(RawScore(raw, weight, Normalise.MAX))
        weight = self._weight(_TAINTS)
        if weight:
            raw = per_node(nodes, lambda taints: discouraging(taints, pod_class.tolerations)).astype(np.float64)
            scores.append(RawScore(raw, weight, Normalise.MAX_REVERSED))
        return scores

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Requested resources and balance, as if the pod were on each node."""
        least, most, balanced = self._weight(_LEAST), self._weight(_MOST), self._weight(_BALANCED)
        points = np.zeros(nodes.size, dtype=np.float64)
        allocatable = nodes.allocatable[[CPU, MEMORY]]
        if least or most:
            # kube-scheduler scores with 100m and 200Mi for containers that state nothing, placed pods included
            coming = nodes.pipelined[[CPU, MEMORY]] - nodes.releasing[[CPU, MEMORY]]
            requested = nodes.nonzero + coming + np.asarray(pod_class.nonzero)[:, None]
            if least:
                points += least * least_allocated(requested, allocatable, _EVEN)
            if most:
                points += most * most_allocated(requested, allocatable, _EVEN)
        if balanced:
            rows = _balanced_rows(pod_class, nodes)
            if rows:
                before = nodes.used[rows] - nodes.releasing[rows] + nodes.pipelined[rows]
                after = before + pod_class.vector[rows][:, None]
                points += balanced * balanced_allocation(before, after, nodes.allocatable[rows])
        return points if least or most or balanced else None


def _balanced_rows(pod_class: PodClass, nodes: NodeView) -> list[int]:
    """cpu, memory, and GPUs where the pod asks for some; none when it asks for nothing of these."""
    rows = [CPU, MEMORY]
    gpu = nodes.row(GPU)
    if gpu is not None and gpu < len(pod_class.vector) and pod_class.vector[gpu] > 0:
        rows.append(gpu)
    return rows if pod_class.vector[rows].any() else []
