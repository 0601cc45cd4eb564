"""gpu-aware: prefers nodes with better GPUs, by the labels of NVIDIA's GPU feature discovery.

Three scores, each 0 to 100 relative to the best node that can take the pod, times its weight:

- memory: label ``nvidia.com/gpu.memory``, MiB of one card;
- compute: generation ``nvidia.com/gpu.compute.major`` and ``.minor``, as the number ``8.6``;
- communication, for pods that ask for several cards: 1 for cards that meet over PCIe, 2 more for NVLink (product names
  of SXM, HGX, NVL and Grace boards, ``nvidia.com/gpu.clique``, ``nvidia.com/nvlink.present``), 1 more for RDMA
  (``feature.node.kubernetes.io/rdma.available``, ``nvidia.com/rdma.capable`` or a Mellanox adapter).

A node without a label counts 0 there. Pods that ask for no GPU are not concerned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from unisono.api.keys import GPU_COMPUTE_MAJOR, GPU_COMPUTE_MINOR, GPU_MEMORY, GPU_PRODUCT, RDMA_AVAILABLE
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, FloatArray, Normalise, RawScore
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.node_view import NodeView

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
_RDMA = (
    RDMA_AVAILABLE,
    "nvidia.com/rdma.capable",
    "feature.node.kubernetes.io/pci-15b3.present",
)


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
    found = np.zeros(nodes.size, dtype=np.bool_)
    for key in keys:
        found |= by_label(nodes, key, lambda value: float(value.lower() == "true")) > 0
    return found


def by_label(nodes: NodeView, key: str, read: Callable[[str], float]) -> FloatArray:
    """``[M]`` what a label's value is read as; 0 where it is absent."""
    values = np.array([*(read(value) for value in nodes.table.label_values(key)), 0.0], dtype=np.float64)
    return np.asarray(values[nodes.label_codes(key)])  # code -1, absent, is the last entry


def number(value: str) -> float:
    """A label's number; 0 for anything else."""
    return float(value) if value.isascii() and value.isdigit() else 0.0
