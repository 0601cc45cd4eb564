"""Hierarchical dominant resource fairness (HDRF, Bhattacharya et al., SoCC 2013) as Volcano computes it.

Inner nodes are the steps of the queues' paths, leaves are jobs. All vectors are float64 ``[R]`` in engine units,
because an inner node's allocation is a scaled sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS

Amounts = npt.NDArray[np.float64]


class Node:
    """One step of a path, or a job.

    Attributes:
        weight: at least 1.
        allocated: of a leaf what its job holds; of an inner node the scaled sum over its children.
        share: dominant share of ``allocated``.
        saturated: a leaf that has all it asked for of some resource, or asks for one that is used up; an inner node
            whose children all are.
        request: what a leaf's job asks for in all.
    """

    __slots__ = ("allocated", "children", "request", "saturated", "share", "weight")

    def __init__(self, weight: float, size: int) -> None:
        self.weight = weight
        self.allocated: Amounts = np.zeros(size)
        self.request: Amounts | None = None
        self.share = 0.0
        self.saturated = False
        self.children: dict[str, Node] = {}


class Tree:
    """The queues' tree over a cluster of ``total``."""

    def __init__(self, total: Amounts) -> None:
        self.total = total
        self.root = Node(1.0, len(total))

    def put(self, path: Sequence[str], weights: Sequence[float], job: str, held: Amounts, request: Amounts) -> None:
        """Add a job, or replace what it holds; the first entry of ``path`` is the root itself."""
        node = self.root
        for depth, step in enumerate(path[1:], start=1):
            child = node.children.get(step)
            if child is None:
                weight = weights[depth] if depth < len(weights) else 1.0
                child = node.children[step] = Node(weight, len(self.total))
            node = child
        key = f"job {job}"  # no step of a path has a space
        leaf = node.children.setdefault(key, Node(1.0, len(self.total)))
        leaf.allocated, leaf.request = held, request
        leaf.share = self._share(held)

    def update(self, held: Amounts) -> None:
        """Compute shares and saturation of every node; ``held`` is what all jobs together hold."""
        self._update(self.root, held < self.total)

    def key(self, path: Sequence[str]) -> tuple[tuple[bool, float], ...]:
        """Sort key of a queue: unsaturated before saturated, then share by weight, level by level from the root."""
        keys: list[tuple[bool, float]] = []
        node: Node | None = self.root
        for step in (*path[1:], None):
            if node is None:
                break
            keys.append((node.saturated, node.share / node.weight))
            node = node.children.get(step) if step is not None else None
        return tuple(keys)

    def _share(self, held: Amounts) -> float:
        present = self.total > 0
        return float((held[present] / self.total[present]).max(initial=0.0))

    def _update(self, node: Node, demanding: npt.NDArray[np.bool_]) -> None:
        if node.request is not None:
            asked = (node.allocated > 0) & (node.request > 0)
            node.saturated = bool((asked & ((node.allocated >= node.request) | ~demanding)).any())
            return
        for child in node.children.values():
            self._update(child, demanding)
        holding = [child for child in node.children.values() if child.share != 0]
        smallest = min((child.share for child in holding if not child.saturated), default=1.0)
        smallest = min(smallest, 1.0)
        node.allocated = np.zeros(len(self.total))
        for child in holding:
            node.allocated += child.allocated * (1.0 if child.saturated else smallest / child.share)
        node.share = self._share(node.allocated)
        node.saturated = all(child.saturated for child in node.children.values())


def path_of(annotations: Mapping[str, str]) -> tuple[list[str], list[float]]:
    """Path and weights of a queue; weights below 1, missing or unreadable count as 1."""
    path = annotations.get(HIERARCHY, "").split("/")
    return path, list(_weights(annotations.get(HIERARCHY_WEIGHTS, "").split("/")))


def _weights(texts: Iterable[str]) -> Iterable[float]:
    for text in texts:
        try:
            weight = float(text)
        except ValueError:
            weight = 1.0
        yield weight if weight >= 1.0 else 1.0  # NaN counts as 1 as well
