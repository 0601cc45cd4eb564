"""gpu-aware and gpu-placement: which nodes with GPUs are best, by better GPUs or by rules from the literature."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from unisono.api.keys import GPU_COMPUTE_MAJOR, GPU_COMPUTE_MINOR, GPU_MEMORY, GPU_PRODUCT, NVIDIA_GPU, RDMA_AVAILABLE
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import CPU
from unisono.cluster.status import ON_NODE_STATES
from unisono.engine.answers import BoolArray, FloatArray, Normalise, RawScore
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.deviceshare.book import DeviceBook, FamilyBook
from unisono.engine.plugins.deviceshare.table import Index
from unisono.engine.plugins.fragmentation.gpus import Gpus
from unisono.engine.session.job_state import JobState
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.session import Session
from unisono.errors import ConfigError

# gpu-aware: prefers nodes with better GPUs, by the labels of NVIDIA's GPU feature discovery.
#
# Three scores, each 0 to 100 relative to the best node that can take the pod, times its weight:
#
# - memory: label ``nvidia.com/gpu.memory``, MiB of one card;
# - compute: generation ``nvidia.com/gpu.compute.major`` and ``.minor``, as the number ``8.6``;
# - communication, for pods that ask for several cards: 1 for cards that meet over PCIe, 2 more for NVLink (product
# names
#   of SXM, HGX, NVL and Grace boards, ``nvidia.com/gpu.clique``, ``nvidia.com/nvlink.present``), 1 more for RDMA
#   (``feature.node.kubernetes.io/rdma.available``, ``nvidia.com/rdma.capable`` or a Mellanox adapter).
#
# A node without a label counts 0 there. Pods that ask for no GPU are not concerned.

_MEMORY = Argument("gpuMemoryWeight", "float", 1.0, "prefers cards with much memory")
_COMPUTE = Argument("gpuComputeWeight", "float", 1.0, "prefers newer compute generations")
_COMMS = Argument("interGPUCommsWeight", "float", 1.0, "prefers fast links between cards, for pods with several")

_GPU = re.compile(
    r"nvidia\.com/(gpu|mig-.*)(\.shared)?|amd\.com/gpu|volcano\.sh/v?gpu-.*|aliyun\.com/gpu-.*"
    r"|tke\.cloud\.tencent\.com/qgpu-.*|alibabacloud\.com/gpu-.*"
)
_COUNTED = re.compile(
    r"nvidia\.com/(gpu|mig-.*)(\.shared)?|amd\.com/gpu|volcano\.sh/v?gpu-number|alibabacloud\.com/gpu-count"
)
_LINKED = re.compile(r"SXM|HGX|DGX|NVL|GH200|GB200|GB300", re.IGNORECASE)
_NVLINK = ("nvidia.com/nvlink.present", "nvidia.com/nvlink")
_RDMA = (RDMA_AVAILABLE, "nvidia.com/rdma.capable", "feature.node.kubernetes.io/pci-15b3.present")


class GpuAwarePlugin(Plugin):
    """Scores nodes by the quality of their GPUs."""

    name = "gpu-aware"
    known_arguments = (_MEMORY, _COMPUTE, _COMMS)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.memory, self.compute, self.comms = (
            float(argument_value(argument, self.arguments)) for argument in (_MEMORY, _COMPUTE, _COMMS)
        )

    def static_score(self, pod_class: PodClass, nodes: NodeView) -> Sequence[RawScore]:
        """Memory, compute generation, and links where the pod has several cards."""
        if not any(_GPU.fullmatch(name) for name in pod_class.requests):
            return ()
        scores = []
        if self.memory:
            raw = by_label(nodes, GPU_MEMORY, number)
            scores.append(RawScore(raw, self.memory, Normalise.MAX))
        if self.compute:
            major = by_label(nodes, GPU_COMPUTE_MAJOR, number)
            minor = by_label(nodes, GPU_COMPUTE_MINOR, number)
            scores.append(RawScore(major + minor / 10.0, self.compute, Normalise.MAX))
        if self.comms and _cards(pod_class) > 1:
            scores.append(RawScore(links(nodes), self.comms, Normalise.MAX))
        return scores


def _cards(pod_class: PodClass) -> int:
    """Cards that the pod asks for, as far as they are counted."""
    return sum(amount for name, amount in pod_class.requests.items() if _COUNTED.fullmatch(name)) // 1000


def links(nodes: NodeView) -> FloatArray:
    """``[M]`` how well a node's GPUs are linked: 0 without GPUs, 1 for PCIe, 2 more for NVLink, 1 more for RDMA."""
    product = nodes.label_codes(GPU_PRODUCT) >= 0
    nvlink = by_label(nodes, GPU_PRODUCT, lambda value: float(bool(_LINKED.search(value)))) > 0
    nvlink |= nodes.label_codes("nvidia.com/gpu.clique") >= 0
    nvlink |= _true(nodes, _NVLINK)
    return np.where(product | nvlink, 1.0 + 2.0 * nvlink + 1.0 * _true(nodes, _RDMA), 0.0)


def _true(nodes: NodeView, keys: Sequence[str]) -> BoolArray:
    labelled = np.zeros(nodes.size, dtype=np.bool_)
    for key in keys:
        labelled |= by_label(nodes, key, lambda value: float(value.lower() == "true")) > 0
    return labelled


def by_label(nodes: NodeView, key: str, read: Callable[[str], float]) -> FloatArray:
    """``[M]`` what a label's value is read as; 0 where it is absent."""
    values = np.array([*(read(value) for value in nodes.table.label_values(key)), 0.0], dtype=np.float64)
    return np.asarray(values[nodes.label_codes(key)])  # code -1, absent, is the last entry


def number(value: str) -> float:
    """A label's number; 0 for anything else."""
    return float(value) if value.isascii() and value.isdigit() else 0.0


# gpu-placement: one of the rules that papers compare their own with, as the only score.
#
# Best fit, dot product, clustering, packing and random; `unisono.engine.plugins.gpu_placement` has the formulas.
# Of shared cards random takes any, and the others take the fullest that has enough room.

# Scores of placement rules as array formulas; ``M`` nodes, CPU in milli-cores, GPUs in thousandths.
#
# As "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC 2023)
# compares them; scores are whole numbers from 0 to 100, and so ties are common.

Ints = npt.NDArray[np.int64]


def dot_product(cpu: Ints, gpu: Ints, asked: tuple[int, int], largest: tuple[int, int]) -> FloatArray:
    """``[M]`` 100 less the mean of the products of what is idle and what is asked for, in shares of the largest node.

    ``cpu`` and ``gpu`` are idle before the placement; ``asked`` and ``largest`` are CPU and GPUs of the pod, and the
    most of any node.
    """
    aligned = cpu / largest[0] * (asked[0] / largest[0]) + gpu / largest[1] * (asked[1] / largest[1])
    return np.asarray(np.trunc(100.0 * (1.0 - aligned / 2.0)))


def best_fit(cpu: Ints, gpu: Ints, asked: tuple[int, int], largest: tuple[int, int], among: BoolArray) -> FloatArray:
    """``[M]`` least is left after the placement, spread from 0 to 100 over the nodes of ``among``."""
    left = (cpu - asked[0]) / largest[0] + (gpu - asked[1]) / largest[1]
    points = np.trunc(100.0 * (1.0 - left / 2.0))
    if not among.any():
        return np.asarray(points)
    low, high = float(points[among].min()), float(points[among].max())
    if low == high:
        return np.zeros(len(points))
    return np.asarray(np.trunc(100.0 * (points - low) / (high - low)))


def clustering(gpu: Ints, same: Ints, others: Ints, largest: int) -> FloatArray:
    """``[M]`` pods of one kind together: 75 on nodes with this kind only, 50 with others too, 25 on empty ones.

    ``gpu`` is idle, ``largest`` the most of any node; ``same`` counts pods of the kind on the node, ``others`` further
    kinds.
    """
    base = np.where(same > 0, np.where(others > 0, 50, 75), np.where(others > 0, 0, 25))
    return np.asarray((base + 25 * (largest - gpu) // largest).astype(np.float64))


def packing(free: Ints, milli: int, count: int) -> FloatArray:
    """``[M]`` cards in use first, then idle cards of nodes in use, then idle nodes with few cards.

    ``free`` is ``[M, C]``, the idle part of each card, -1 where there is none; ``milli`` is asked of ``count`` cards.
    """
    present = free >= 0
    whole = (free == 1000).sum(axis=1)
    number = present.sum(axis=1)
    order = np.sort(np.where(present & (free >= milli), free, _NONE), axis=1)[:, :count]
    fits = np.asarray((order < _NONE).all(axis=1))
    untouched = np.where(fits, (order == 1000).sum(axis=1), 0)
    shares = np.where(fits[:, None], order // 10, 0).sum(axis=1)
    used = np.where(untouched > 0, np.maximum(33, 50 - untouched), np.maximum(50, 100 - shares // 10))
    return np.asarray(np.where(whole == number, np.maximum(33 - whole, whole), used).astype(np.float64))


_NONE = 1 << 40

_RULE = Argument("gpu-placement.rule", "text", "best-fit", "best-fit, dot-product, clustering, packing or random")
_WEIGHT = Argument("gpu-placement.weight", "int", 1, "multiplies the score; 0 switches the plug-in off")
_RESOURCE = Argument("gpu-placement.resource", "text", NVIDIA_GPU, "name of whole GPUs")

_RULES = ("best-fit", "dot-product", "clustering", "packing", "random")
_BATCH = frozenset(("best-fit", "random"))
_GPU_ONLY = frozenset(("clustering", "packing"))
_SHARED = 0


class GpuPlacementPlugin(Plugin):
    """Scores nodes by one rule."""

    name = "gpu-placement"
    pure = False
    known_arguments = (_RULE, _WEIGHT, _RESOURCE)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.rule = str(argument_value(_RULE, self.arguments))
        if self.rule not in _RULES:
            raise ConfigError(f"{_RULE.key} must be one of {', '.join(_RULES)}, not {self.rule}")
        self.weight = int(argument_value(_WEIGHT, self.arguments))

    def open(self, session: Session) -> None:
        """Look at nothing yet: without pending pods there is nothing to do."""
        self.session = session
        self.devices = DeviceBook.of(session)
        self._draw = np.random.default_rng((session.seed, int(session.now)))
        if self.weight and self.rule == "random":
            self.devices.prefer(self._any_card)

    def _any_card(self, book: FamilyBook, pod_class: PodClass, rows: Index, placed: bool) -> Ints:
        return self._draw.permuted(np.tile(np.arange(book.table.memory.shape[1]), (len(rows), 1)), axis=1)

    @cached_property
    def gpus(self) -> Gpus:
        """The cluster's GPUs; which cards are shared is known when every plug-in is open."""
        return Gpus(self.session, self.devices, str(argument_value(_RESOURCE, self.arguments)))

    @cached_property
    def largest(self) -> tuple[int, int]:
        """Most CPU and most GPUs (in thousandths) of any node."""
        return int(self.session.nodes.allocatable[CPU].max(initial=1)), max(1000 * self.gpus.width, 1000)

    def concerns(self, pod_class: PodClass) -> bool:
        """Every pod, but those without GPU where a rule has nothing to say about them."""
        return bool(self.weight) and (self.rule not in _GPU_ONLY or self._asked(pod_class)[0] > 0)

    def _asked(self, pod_class: PodClass) -> tuple[int, int]:
        """Cards, and thousandths of each."""
        return self.gpus.asked(pod_class)

    # ---- scores

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Rules that look at one node."""
        if not self.weight or self.rule in _BATCH:
            return None
        count, milli = self._asked(pod_class)
        if not count and self.rule in _GPU_ONLY:
            return None
        free = self.gpus.free(nodes)
        gpu = free.sum(axis=1)
        if self.rule == "dot-product":
            cpu = nodes.allocatable[CPU] - nodes.used[CPU]
            asked = pod_class.requests.get("cpu", 0), count * milli
            return self.weight * dot_product(cpu, gpu, asked, self.largest)
        if self.rule == "clustering":
            kinds = self.kinds[:, nodes.columns]
            same = kinds[self._kind(pod_class)]
            others = (kinds > 0).sum(axis=0) - (same > 0)
            return self.weight * clustering(gpu, same, others, self.largest[1])
        there = np.arange(free.shape[1]) < self.gpus.cards[nodes.columns][:, None]
        return self.weight * packing(np.where(there, free, -1), milli, count)

    def stamp(self, pod_class: PodClass) -> int | None:
        """Scores over candidates are asked for after every placement anyway."""
        return 0 if self.weight and self.rule in _BATCH else None

    def batch_score(self, pod_class: PodClass, nodes: NodeView, candidates: BoolArray) -> FloatArray | None:
        """Rules that look at all candidates."""
        if self.rule == "random":
            return self.weight * self._draw.random(nodes.size)
        count, milli = self._asked(pod_class)
        cpu = nodes.allocatable[CPU] - nodes.used[CPU]
        asked = pod_class.requests.get("cpu", 0), count * milli
        gpu = self.gpus.free(nodes).sum(axis=1)
        return self.weight * best_fit(cpu, gpu, asked, self.largest, candidates)

    # ---- which kinds of pods are where

    @cached_property
    def kinds(self) -> Ints:
        """``[K, N]`` pods on each node by kind: with a part of a card, with one card, with two, ..."""
        counts = np.zeros((self.gpus.width + 2, self.session.nodes.size), dtype=np.int64)
        index, tasks_on = self.session.snapshot.nodes.index, self.session.snapshot.tasks_on
        for name, column in index.items():
            for task in tasks_on.get(name, {}).values():
                if task.status in ON_NODE_STATES and (kind := self._kind(task.pod_class)) >= 0:
                    counts[kind, column] += 1
        return counts

    def _kind(self, pod_class: PodClass) -> int:
        count, milli = self._asked(pod_class)
        if not count:
            return -1
        return _SHARED if milli < 1000 else min(count, self.gpus.width + 1)

    def placed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """Count pods where they go."""
        self._count(pod_class, nodes, 1)

    def removed(self, job: JobState, pod_class: PodClass, nodes: Sequence[int]) -> None:
        """Count them no more."""
        self._count(pod_class, nodes, -1)

    def _count(self, pod_class: PodClass, nodes: Sequence[int], sign: int) -> None:
        if self.rule == "clustering" and (kind := self._kind(pod_class)) >= 0:
            np.add.at(self.kinds[kind], list(nodes), sign)
