"""Scores of nodes: binpack and resource-strategy-fit, and nodeorder with those of kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from unisono.api.keys import NVIDIA_GPU, SCORING_TYPE, SCORING_WEIGHT
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU, MEMORY, ResourceRegistry
from unisono.engine.answers import BoolArray, FloatArray, Normalise, RawScore, Reason, Veto
from unisono.engine.config.arguments import Argument, Shape, argument_value, one_of, read_bool
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.common import formulas
from unisono.engine.plugins.common.annotations import decoded
from unisono.engine.plugins.common.formulas import balanced_allocation, least_allocated, most_allocated
from unisono.engine.plugins.common.node_selectors import discouraging, match_term, per_node
from unisono.engine.plugins.common.topology_spread import InterPodScore, SpreadScore
from unisono.engine.session.node_view import NodeAt, NodeView, as_slice
from unisono.engine.session.session import Session

# binpack: prefers nodes that the pod fills up, by a weighted mean over its resources.

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
        demand = self._demands.get(pod_class.id)
        if demand is None:
            names = [name for name in pod_class.requests if name in self.weights]
            rows = registry.rows(names)
            demand = [pod_class.requests[name] for name in names], rows, [self.weights[name] for name in names]
            self._demands[pod_class.id] = demand
        return demand

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
        return self.weight * formulas.binpack_at(request, used, [node.allocatable[row] for row in rows], weights)


# resource-strategy-fit: each resource is packed or spread by its own rule, and scarce ones are kept free.
#
# A pod may bring its own rule in annotations. Arguments are nested YAML, as in Volcano.

# Reads the nested arguments of resource-strategy-fit.

MOST = "MostAllocated"
LEAST = "LeastAllocated"


@dataclass(frozen=True, slots=True)
class Strategy:
    """How one resource counts: ``type`` MOST or LEAST (``""``: not at all), and its weight."""

    type: str
    weight: int


Choices = dict[str, Strategy]


class Strategies:
    """Strategies by resource name; a name that ends in ``*`` stands for all that begin so, the longest wins."""

    def __init__(self, given: Mapping[str, object] | None) -> None:
        self.exact: Choices = {}
        self.prefixes: list[tuple[str, Strategy]] = []
        for name, entry in (given or {}).items():
            strategy = _strategy(entry)
            if "*" not in name:
                self.exact[name] = strategy
            elif name.index("*") == len(name) - 1 and len(name) > 1:
                self.prefixes.append((name[:-1], strategy))
        if not given:
            self.exact = {name: Strategy(LEAST, 1) for name in ("cpu", "memory")}
        self.prefixes.sort(key=lambda pair: -len(pair[0]))

    def of(self, requested: Iterable[str]) -> Choices:
        """Strategies of those requested resources that have one."""
        strategies: Choices = {}
        for name in requested:
            strategy = self.exact.get(name)
            if strategy is None:
                strategy = next((choice for prefix, choice in self.prefixes if name.startswith(prefix)), None)
            if strategy is not None:
                strategies[name] = strategy
        return strategies


def _strategy(entry: object) -> Strategy:
    """Unknown types count as LeastAllocated, weights that are not positive as 1."""
    given = entry if isinstance(entry, dict) else {}
    weight = int(number(given.get("weight"), 1))
    return Strategy(MOST if given.get("type") == MOST else LEAST, weight if weight > 0 else 1)


def section(given: Mapping[str, object] | None) -> Mapping[str, object]:
    """A block that is switched on by its ``enable``, else an empty one."""
    if not given or not isinstance(given.get("enable"), (bool, str)):
        return {}
    try:
        return given if read_bool(given["enable"]) else {}
    except KeyError:
        return {}


def names_in(text: object) -> list[str]:
    """Resource names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()] if isinstance(text, str) else []


def number(value: object, default: float) -> float:
    """A number, else the default."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default


_AT_LEAST_1 = Shape("int", least=1)
_NAMES = Shape("text", form="names of resources, separated by commas")
_FIT_WEIGHT = Argument(
    "resourceStrategyFitWeight", "int", 10, "multiplies the score; negative means 10, 0 switches it off"
)
_FIT_RESOURCES = Argument(
    "resources",
    "map",
    None,
    "name to `{type: MostAllocated|LeastAllocated, weight}`; a name may end in `*`",
    shape=Shape("map", each=Shape("map", fields={"type": one_of(MOST, LEAST), "weight": _AT_LEAST_1})),
)
_SRA = Argument(
    "sra",
    "map",
    None,
    "`{enable, resources, weight, resourceWeight}`: keeps off nodes with scarce resources",
    shape=Shape(
        "map",
        required=("enable",),
        fields={
            "enable": Shape("bool"),
            "resources": _NAMES,
            "weight": Shape("int", least=0),
            "resourceWeight": Shape("map", each=Shape("int", least=0)),
        },
    ),
)
_PROPORTIONAL = Argument(
    "proportional",
    "map",
    None,
    "`{enable, resources, resourceProportion}`: keeps cpu and memory for idle devices",
    shape=Shape(
        "map",
        required=("enable",),
        fields={
            "enable": Shape("bool"),
            "resources": _NAMES,
            "resourceProportion": Shape("map", each=Shape("float", least=0)),
        },
    ),
)
_GIGA = 10**6
"""Bytes per milli-device that a proportion of 1 keeps: one decimal gigabyte per device."""


class ResourceStrategyFitPlugin(Plugin):
    """Scores by allocation per resource; optionally avoids scarce resources and keeps proportions."""

    name = "resource-strategy-fit"
    known_arguments = (_FIT_WEIGHT, _FIT_RESOURCES, _SRA, _PROPORTIONAL)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        weight = int(argument_value(_FIT_WEIGHT, self.arguments))
        self.weight = weight if weight >= 0 else int(_FIT_WEIGHT.default)
        self.strategies = Strategies(argument_value(_FIT_RESOURCES, self.arguments))
        sra = section(argument_value(_SRA, self.arguments))
        self.sra_weight = max(int(number(sra.get("weight"), 0)), 0) if sra else 0
        given = sra.get("resourceWeight")
        weights = given if isinstance(given, dict) else {}
        self.scarce = {name: _at_least_0(weights.get(name)) for name in names_in(sra.get("resources"))}
        self.kept = _proportions(section(argument_value(_PROPORTIONAL, self.arguments)))

    # ---- filter

    def filter(self, pod_class: PodClass, nodes: NodeView) -> Sequence[Veto]:
        """Nodes where a pod without devices would take the cpu or memory that idle devices will need."""
        if not self.kept or any(name in self.kept for name in pod_class.requests):
            return ()
        idle = nodes.idle
        vetoes = []
        for name, (cpu, memory) in self.kept.items():
            row = nodes.row(name)
            if row is None:
                continue
            left_cpu = idle[CPU] - pod_class.vector[CPU]
            left_memory = idle[MEMORY] - pod_class.vector[MEMORY]
            short = (left_cpu < idle[row] * cpu) | (left_memory < idle[row] * memory * _GIGA)
            has = nodes.allocatable[row] > 0
            reason = Reason(f"proportional of resource {name} check failed", unresolvable=True)
            vetoes.append(Veto(np.asarray(has & short, dtype=np.bool_), reason))
        return vetoes

    # ---- scores

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Allocation score plus the score for keeping off scarce resources."""
        points = np.zeros(nodes.size, dtype=np.float64)
        if self.weight:
            points += self._allocation(pod_class, nodes)
        if self.sra_weight and sum(self.scarce.values()):
            points += self._scarcity(pod_class, nodes)
        return points if self.weight or self.sra_weight else None

    def _allocation(self, pod_class: PodClass, nodes: NodeView) -> FloatArray:
        """Weighted mean over the requested resources, times 100; 0 where one would overflow."""
        choices = self._choices(pod_class)
        total = sum(choice.weight for choice in choices.values())
        points = np.zeros(nodes.size, dtype=np.float64)
        over = np.zeros(nodes.size, dtype=np.bool_)
        for name, choice in choices.items():
            row = nodes.row(name)
            if row is None or not total:
                continue
            allocatable, after = nodes.allocatable[row], nodes.used[row] + pod_class.vector[row]
            over |= (after > allocatable) & (allocatable > 0)
            share = np.where(allocatable > 0, after / np.maximum(allocatable, 1), 0.0)
            if choice.type != MOST:
                share = np.where(allocatable > 0, 1.0 - share, 0.0)
            points += choice.weight * share if choice.type else 0.0
        return np.where(over, 0.0, points / max(total, 1) * 100.0 * self.weight)

    def _choices(self, pod_class: PodClass) -> Choices:
        """Strategy of each requested resource (``pods`` too) that has one; the pod's own where it brings some."""
        requested = (*pod_class.requests, "pods")
        own = pod_class.notes.get(SCORING_TYPE)
        if own is None:
            return self.strategies.of(requested)
        kind = own if own in (MOST, "LeastAllocated") else ""
        weights = _weights(pod_class.notes)
        return {name: Strategy(kind, weights[name]) for name in requested if name in weights}

    def _scarcity(self, pod_class: PodClass, nodes: NodeView) -> FloatArray:
        """100 where a node has none of the scarce resources, 0 where it has all, or lacks what the pod requests."""
        whole = sum(self.scarce.values())
        raw = np.zeros(nodes.size, dtype=np.float64)
        for name, weight in self.scarce.items():
            row = nodes.row(name)
            if row is not None:
                raw += np.where(nodes.allocatable[row] > 0, weight, 0)
        fits: BoolArray = np.ones(nodes.size, dtype=np.bool_)
        for name in pod_class.requests:
            row = nodes.row(name)
            fits &= (nodes.allocatable[row] > 0) if row is not None else False
        return np.where(fits, (1.0 - raw / whole) * 100.0 * self.sra_weight, 0.0)


def _weights(notes: Mapping[str, str]) -> dict[str, int]:
    """Weights that a pod brings; none when they cannot be read."""
    try:
        given = decoded(notes.get(SCORING_WEIGHT, ""))
        return {str(name): int(weight) for name, weight in given.items() if int(weight) > 0}
    except (ValueError, OverflowError, AttributeError, TypeError):
        return {}


def _at_least_0(weight: object) -> int:
    value = int(number(weight, 1))
    return value if value >= 0 else 1


def _proportions(given: Mapping[str, object]) -> dict[str, tuple[float, float]]:
    """Cores, and decimal gigabytes, to keep per idle device."""
    factors = given.get("resourceProportion")
    factors = factors if isinstance(factors, dict) else {}

    def factor(key: str) -> float:
        value = number(factors.get(key), 1.0)
        return value if value >= 0 else 1.0

    return {name: (factor(f"{name}.cpu"), factor(f"{name}.memory")) for name in names_in(given.get("resources"))}


# nodeorder: scores of kube-scheduler, each 0 to 100 times its weight, summed.


# Image locality: prefers nodes that have much of a pod's images already (formula of kube-scheduler 1.36).

_MIB = 1024 * 1024
_LEAST_IMAGE = 23 * _MIB
_MOST_PER_CONTAINER = 1000 * _MIB


def image_locality(pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
    """``[M]`` 0 to 100 by the bytes that are there, each image scaled by the share of nodes that have it.

    None when no node has any of the images.
    """
    table = nodes.table
    present = [name for name in pod_class.images if name in table.image_nodes]
    if not present:
        return None
    facts = nodes.facts
    total = np.zeros(nodes.size, dtype=np.int64)
    for name in present:
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
    known_arguments = (_LEAST, _MOST, _AFFINITY, _POD_AFFINITY, _BALANCED, _TAINTS, _IMAGES, _SPREAD)

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
                points += least * formulas.least_allocated_at(requested, whole[_BOTH], (1, 1))
            if most:
                points += most * formulas.most_allocated_at(requested, whole[_BOTH], (1, 1))
        if balanced and rows:
            used, evicted, promised = node.used, node.evicted, node.pipelined
            before = [used[row] - evicted[row] + promised[row] for row in rows]
            after = [held + vector[row] for held, row in zip(before, rows, strict=True)]
            points += balanced * formulas.balanced_allocation_at(before, after, [whole[row] for row in rows])
        return points if least or most or balanced else None

    # ---- what depends on other pods

    def _batches_of(self, pod_class: PodClass) -> list[tuple[int, BatchScore]]:
        if pod_class.base is pod_class:
            return []
        batches = self._batches.get(pod_class.id)
        if batches is None:
            batches = self._batches[pod_class.id] = list(self._make_batches(pod_class))
        return batches

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
