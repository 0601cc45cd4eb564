"""nodeorder: scores of kube-scheduler, each 0 to 100 times its weight, summed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from unisono.api.keys import NVIDIA_GPU
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU, MEMORY
from unisono.engine.answers import BoolArray, FloatArray, Normalise, RawScore
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common import formulas_at
from unisono.engine.plugins.common.formulas import balanced_allocation, least_allocated, most_allocated
from unisono.engine.plugins.common.node_selectors import discouraging, match_term, per_node
from unisono.engine.plugins.common.pod_affinity import InterPodScore
from unisono.engine.plugins.common.topology_spread import SpreadScore
from unisono.engine.session.node_view import NodeAt, NodeView
from unisono.engine.session.session import Session

# Image locality: prefers nodes that have much of a pod's images already (formula of kube-scheduler 1.36).

_MIB = 1024 * 1024
_LEAST_IMAGE = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB


def image_locality(pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
    """``[M]`` 0 to 100 by the bytes that are there, each image scaled by the share of nodes that have it.

    None when no node has any of the images.
    """
    table = nodes.table
    known = [name for name in pod_class.images if name in table.image_nodes]
    if not known:
        return None
    facts = nodes.facts
    total = np.zeros(nodes.size, dtype=np.int64)
    for name in known:
        points = int(table.image_size(name) * (table.image_nodes[name] / max(len(table), 1)))
        total += np.array([points if name in node.images else 0 for node in facts], dtype=np.int64)
    containers = len(pod_class.containers) + len(pod_class.init_containers)
    most = max(_MOST_PER_CONTAINER * containers, _LEAST_IMAGE + 1)
    return np.asarray(
        100 * (np.clip(total, _LEAST_IMAGE, most) - _LEAST_IMAGE) // (most - _LEAST_IMAGE), dtype=np.float64
    )


_LEAST = Argument("leastrequested.weight", "int", 1, "prefers nodes with much free cpu and memory")
_MOST = Argument("mostrequested.weight", "int", 0, "prefers nodes with little free cpu and memory")
_BALANCED = Argument("balancedresource.weight", "int", 1, "prefers nodes whose cpu, memory and GPU use stays even")
_AFFINITY = Argument("nodeaffinity.weight", "int", 2, "preferred node affinity")
_TAINTS = Argument("tainttoleration.weight", "int", 3, "avoids taints PreferNoSchedule")
_POD_AFFINITY = Argument("podaffinity.weight", "int", 2, "preferred inter-pod affinity and anti-affinity")
_IMAGES = Argument("imagelocality.weight", "int", 1, "images that a node already has")
_SPREAD = Argument("podtopologyspread.weight", "int", 2, "topology spread with ScheduleAnyway")

_BOTH = slice(CPU, MEMORY + 1)
_EVEN = np.array([1, 1], dtype=np.int64)


class NodeOrderPlugin(Plugin):
    """Prefers nodes by free resources, balance, preferred affinity and preferred taints."""

    name = "nodeorder"
    static_by_kin = True
    known_arguments = (
        _LEAST,
        _MOST,
        _AFFINITY,
        _POD_AFFINITY,
        _BALANCED,
        _TAINTS,
        _IMAGES,
        _SPREAD,
    )

    def _weight(self, argument: Argument) -> int:
        return int(argument_value(argument, self.arguments))

    def open(self, session: Session) -> None:
        """Nothing is computed before it is asked for."""
        self.session = session
        self._demands: dict[int, tuple[list[int], list[int], list[int]]] = {}
        self._batches: dict[int, list[tuple[int, BatchScore]]] = {}

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """Preferred node affinity, PreferNoSchedule taints and images; the engine normalises over the candidates."""
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
        weight = self._weight(_IMAGES)
        present = image_locality(pod_class, nodes) if weight and pod_class.images else None
        if present is not None:
            scores.append(RawScore(present, weight))
        return scores

    @cached_property
    def _weights(self) -> tuple[int, int, int]:
        return self._weight(_LEAST), self._weight(_MOST), self._weight(_BALANCED)

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Requested resources and balance, as if the pod were on each node."""
        least, most, balanced = self._weights
        points = np.zeros(nodes.size, dtype=np.float64)
        allocatable = nodes.allocatable[_BOTH]
        if least or most:
            # kube-scheduler scores with 100m and 200Mi for containers that state nothing, placed pods included
            requested = nodes.nonzero + np.asarray(pod_class.nonzero)[:, None]
            if least:
                points += least * least_allocated(requested, allocatable, _EVEN)
            if most:
                points += most * most_allocated(requested, allocatable, _EVEN)
        if balanced:
            rows = _balanced_rows(pod_class, nodes.row(NVIDIA_GPU))
            if rows:
                part = _BOTH if rows == [CPU, MEMORY] else rows
                before = nodes.used[part] - nodes.evicted[part] + nodes.pipelined[part]
                after = before + pod_class.vector[part][:, None]
                points += balanced * balanced_allocation(before, after, nodes.allocatable[part])
        return points if least or most or balanced else None

    def score_at(self, pod_class: PodClass, node: NodeAt) -> float | None:
        """The same for one node."""
        least, most, balanced = self._weights
        demand = self._demands.get(pod_class.id)
        if demand is None:
            rows = _balanced_rows(pod_class, self.session.registry.find(NVIDIA_GPU))
            demand = self._demands[pod_class.id] = (
                np.asarray(pod_class.nonzero).tolist(),
                pod_class.vector.tolist(),
                rows,
            )
        nonzero, vector, rows = demand
        whole = node.allocatable
        points = 0.0
        if least or most:
            requested = (node.nonzero[0] + nonzero[0], node.nonzero[1] + nonzero[1])
            if least:
                points += least * formulas_at.least_allocated(requested, whole[_BOTH], (1, 1))
            if most:
                points += most * formulas_at.most_allocated(requested, whole[_BOTH], (1, 1))
        if balanced and rows:
            used, evicted, promised = node.used, node.evicted, node.pipelined
            before = [used[row] - evicted[row] + promised[row] for row in rows]
            after = [held + vector[row] for held, row in zip(before, rows, strict=True)]
            points += balanced * formulas_at.balanced_allocation(before, after, [whole[row] for row in rows])
        return points if least or most or balanced else None

    # ---- what depends on other pods

    def _batches_of(self, pod_class: PodClass) -> list[tuple[int, BatchScore]]:
        if pod_class.base is pod_class:
            return []
        found = self._batches.get(pod_class.id)
        if found is None:
            found = self._batches[pod_class.id] = list(self._make_batches(pod_class))
        return found

    def _make_batches(self, pod_class: PodClass) -> Iterator[tuple[int, BatchScore]]:
        weight = self._weight(_POD_AFFINITY)
        between = InterPodScore.of(pod_class, self.session.domains) if weight else None
        if between is not None:
            yield weight, between
        weight = self._weight(_SPREAD)
        spread = SpreadScore.of(pod_class, self.session) if weight else None
        if spread is not None:
            yield weight, spread

    def stamp(self, pod_class: PodClass) -> int | None:
        """Constant: scores over candidates are asked for after every placement anyway."""
        return 0 if self._batches_of(pod_class) else None

    def batch_score(self, pod_class: PodClass, nodes: NodeView, candidates: BoolArray) -> FloatArray | None:
        """Preferred inter-pod affinity and soft topology spread."""
        points = np.zeros(nodes.size, dtype=np.float64)
        for weight, batch in self._batches_of(pod_class):
            points += weight * batch.points(candidates)
        return points


class BatchScore(Protocol):
    """One score for one class over all nodes, given the candidates."""

    def points(self, candidates: BoolArray) -> FloatArray:
        """``[N]`` 0 to 100."""
        ...


def _balanced_rows(pod_class: PodClass, gpu: int | None) -> list[int]:
    """cpu, memory, and GPUs where the pod asks for some; none when it asks for nothing of these."""
    rows = [CPU, MEMORY]
    if gpu is not None and gpu < len(pod_class.vector) and pod_class.vector[gpu] > 0:
        rows.append(gpu)
    return rows if pod_class.vector[rows].any() else []
