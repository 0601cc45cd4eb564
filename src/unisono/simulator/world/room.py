"""Whether a waiting pod could be placed at all: the free amounts of the nodes, without the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from unisono.api.core import Node
from unisono.api.resources import resource_list
from unisono.simulator.clusters.model import gpus_of
from unisono.simulator.workload.job import WHOLE_GPU, Role

Needs = tuple[int, int, int]
"""CPU in thousandths of cores, memory in bytes, and thousandths of GPUs of one pod."""


def needs_of(role: Role) -> Needs:
    """What a pod of the role takes from its node."""
    return role.cpu_milli, role.memory_mib << 20, role.gpu_demand


class Room:
    """Free CPU, memory and GPUs by node.

    It knows nothing of other resources, labels, shares of one GPU or plug-ins, so it only ever says too often that
    there is room.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        amounts = [resource_list(node.status.allocatable) for node in nodes]
        gpus = [gpus_of(node) * WHOLE_GPU for node in nodes]
        columns = [(each.get("cpu", 0), each.get("memory", 0), gpu) for each, gpu in zip(amounts, gpus, strict=True)]
        self._free = np.array(columns, dtype=np.int64).reshape(len(columns), 3)
        self._up = np.ones(len(columns), dtype=np.bool_)
        self._known: dict[Needs, bool] = {}

    def take(self, node: int, needs: Needs) -> None:
        """A pod was placed on the node with this number."""
        self._free[node] -= needs
        self._known.clear()

    def give(self, node: int, needs: Needs) -> None:
        """A pod has left the node."""
        self._free[node] += needs
        self._known.clear()

    def note(self, node: int, *, up: bool) -> None:
        """The node is there, or not."""
        self._up[node] = up
        self._known.clear()

    def holds_any(self, wanted: Iterable[Needs]) -> bool:
        """Whether a node has room for one of these pods."""
        return any(self._holds(needs) for needs in wanted)

    def _holds(self, needs: Needs) -> bool:
        known = self._known.get(needs)
        if known is None:
            known = self._known[needs] = bool(((self._free >= needs).all(axis=1) & self._up).any())
        return known
