"""network-topology-aware: places jobs close together in the tree of HyperNodes, and others where they disturb least."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unisono.cluster.hypertree import NOWHERE, HyperNodeTree, Index
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import Matrix, Vector, fitted
from unisono.cluster.status import TaskStatus
from unisono.engine.answers import BoolArray, FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.plugins.network_topology_aware.fewest_domains import (
    DomainAmounts,
    FewestDomains,
    Filling,
    FillingOfLines,
)
from unisono.engine.session.followed_sums import FollowedSums
from unisono.engine.session.node_view import NodeView
from unisono.engine.session.sub_groups import groups_of, requested, wants_topology

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup

# Points of the lowest HyperNodes of a domain for a sub-group, of which a placement changes few.

Nearness = tuple[FloatArray, FloatArray]
"""``[leaves]`` 1 for a HyperNode itself, down to 0 where only the root joins a leaf to it; 1 for the nearest leaves."""


class LeafPoints:
    """Near leaves before far ones, of equally near ones those with most tasks, then as `FewestDomains` says.

    Args:
        order: that of the leaves.
        tree: the HyperNodes.
        leaves: the lowest HyperNodes of the domain.
        scale: what a leaf gets that is the sub-group's own HyperNode.
        near: nearness by HyperNode and domain, kept for the session.
    """

    def __init__(
        self,
        order: FewestDomains,
        tree: HyperNodeTree,
        leaves: Sequence[int],
        scale: float,
        near: dict[tuple[int, int], Nearness],
    ) -> None:
        self.order = order
        self._tree, self._leaves, self._scale, self._near = tree, leaves, scale, near
        self._share = 1.0 / max(len(order.group.tasks), 1)
        tiers = max(tree.levels[-1] - tree.levels[0], 1)
        self._step = min(self._share, 1.0 / tiers)  # no more than a tier is worth
        self._at = NOWHERE
        self._points: FloatArray = np.zeros(len(leaves), dtype=np.float64)

    def points(self) -> FloatArray:
        """``[leaves]`` the points as things stand; read only."""
        filling, at = self.order.points(), self.order.group.at
        where, self._at = self.order.changed if at == self._at else slice(None), at
        if at == NOWHERE:
            return filling * self._scale
        if where == slice(None):
            self._nearness, self._nearest = self._nearness_to(at)
        near = self._nearness[where] + self._nearest[where] * self.order.own[where] * self._share
        self._points[where] = (near + filling[where] * self._step) * self._scale
        return self._points

    def _nearness_to(self, at: int) -> Nearness:
        nearness = self._near.get((at, id(self.order.columns)))
        if nearness is None:
            tree, low, high = self._tree, self._tree.levels[0], self._tree.levels[-1]
            tiers = [int(tree.tiers[tree.common(at, leaf)]) for leaf in self._leaves]
            near = np.array(
                [
                    1.0 if leaf == at or high == low else (high - tier) / (high - low)
                    for leaf, tier in zip(self._leaves, tiers, strict=True)
                ],
                dtype=np.float64,
            )
            nearest = np.equal(near, near.max(initial=0.0)).astype(np.float64)
            nearness = self._near[at, id(self.order.columns)] = (near, nearest)
        return nearness


_WEIGHT = Argument("weight", "int", 1, "multiplies all scores; negative means 1")
_CPU = Argument("hypernode.binpack.cpu", "int", 1, "weight of cpu; negative means 1")
_MEMORY = Argument("hypernode.binpack.memory", "int", 1, "weight of memory; negative means 1")
_RESOURCES = Argument("hypernode.binpack.resources", "text", "", "further resource names, separated by commas")
_RESOURCE = "hypernode.binpack.resources."
_NORMAL = Argument("hypernode.binpack.normal-pod.enable", "bool", True, "score nodes for pods without topology as well")
_FADING = Argument("hypernode.binpack.normal-pod.fading", "float", 0.8, "weight of a tier against the one below it")
_AUTO = Argument("network-topology-aware.AutoEnable", "bool", False, "nothing where there are no HyperNodes")
_MOST_FILLINGS = 64
"""Requests of which the shares of all HyperNodes are kept at a time."""
_EVICT = Argument("hypernode.gradient.evict.max-hypernodes", "int", 8, "HyperNodes in which evictions are tried")


class NetworkTopologyAwarePlugin(Plugin):
    """Gradients of HyperNodes, and scores of HyperNodes and nodes."""

    name = "network-topology-aware"
    known_arguments = (
        _WEIGHT,
        _CPU,
        _MEMORY,
        _RESOURCES,
        Argument(_RESOURCE + "*", "int", 1, "weight of one of those; negative means 1"),
        _NORMAL,
        _FADING,
        _EVICT,
        _AUTO,
    )

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weight = self._natural(_WEIGHT)
        self.weights = {"cpu": self._natural(_CPU), "memory": self._natural(_MEMORY)}
        for name in str(argument_value(_RESOURCES, self.arguments)).split(","):
            if name.strip():
                self.weights[name.strip()] = self._natural(Argument(_RESOURCE + name.strip(), "int", 1, ""))
        self.normal = bool(argument_value(_NORMAL, self.arguments))
        fading = float(argument_value(_FADING, self.arguments))
        self.fading = _FADING.default if fading < 0 else fading
        most = int(argument_value(_EVICT, self.arguments))
        self.most_evict = _EVICT.default if most <= 0 else most

    def _natural(self, argument: Argument) -> int:
        value = int(argument_value(argument, self.arguments))
        return 1 if value < 0 else value

    @classmethod
    def used(cls, session: Session) -> bool:
        """Where there are HyperNodes."""
        tree = session.snapshot.hyper_nodes
        return len(tree) > 1  # the root is always there

    def open(self, session: Session) -> None:
        """Keep the session and its tree."""
        self.session = session
        self.tree = session.snapshot.hyper_nodes
        registry = session.registry
        row_by_name = {name: row for name in self.weights if (row := registry.find(name)) is not None}
        self.rows: Index = np.array(list(row_by_name.values()), dtype=np.intp)
        self.row_weights = np.array([self.weights[name] for name in row_by_name], dtype=np.float64)
        self.amounts = DomainAmounts(session, self.rows)
        self._weighed: dict[int, bool] = {}
        self._by_lines: dict[bytes, FillingOfLines] = {}
        self._fillings: dict[bytes, Filling] = {}
        self._tiers: dict[tuple[int, int], list[list[int]]] = {}
        self._present: dict[int, tuple[list[int], Index]] = {}
        self._near: dict[tuple[int, int], Nearness] = {}
        self._guide: LeafPoints | None = None

    # ---- domains

    def domain_gradients(
        self, job: JobState, group: SubGroup | None, top: int, *, evict: bool
    ) -> Sequence[Sequence[int]] | None:
        """HyperNodes below ``top`` and within the limit, tier by tier from below; those that may hold all come first.

        All of a job is its minResources, which may count pods that are made later; all of a sub-group are its pending
        tasks. The other domains follow: one that holds the pods that are needed will do. With evictions from above,
        and only so many domains as configured.
        """
        groups = groups_of(self.session, job)
        limit = groups.limit if group is None else group.limit
        if limit is None:
            return [[top]]
        at = groups.at if group is None else group.at
        root = top
        if at != NOWHERE:
            allowed = self.tree.highest(at, limit)
            if allowed == NOWHERE:
                return []
            if self.tree.is_above(allowed, top):
                root = top
            elif self.tree.is_above(top, allowed):
                root = allowed
            else:
                return []
        gradients = self._by_tier(root, limit)
        if at == NOWHERE:
            minimum = self._minimum(job, group)
            able = [self._large_enough(domains, minimum, evict=evict) for domains in gradients]
            rest = [[each for each in every if each not in few] for every, few in zip(gradients, able, strict=True)]
            gradients = [domains for domains in (*rest, *able) if domains] if evict else [*able, *rest]
        return self._widest(gradients) if evict else [domains for domains in gradients if domains]

    def _by_tier(self, root: int, limit: int) -> list[list[int]]:
        """``root`` and the HyperNodes below it, up to tier ``limit``, by tier from below; read only."""
        domains = self._tiers.get((root, limit))
        if domains is None:
            by_tier: dict[int, list[int]] = {}
            for each in self.tree.below(root):
                tier = int(self.tree.tiers[each])
                if tier <= limit:
                    by_tier.setdefault(tier, []).append(each)
            domains = self._tiers[root, limit] = [by_tier[tier] for tier in sorted(by_tier)]
        return domains

    def _minimum(self, job: JobState, group: SubGroup | None) -> Vector | None:
        if group is None:
            minimum = job.min_resources
            return None if minimum is None else fitted(minimum, self.session.rows)
        pending = [
            task for task in group.tasks if task.key in job.record.pending and job.status(task) is TaskStatus.PENDING
        ]
        return requested(pending, self.session.rows)

    def _large_enough(self, domains: list[int], minimum: Vector | None, *, evict: bool) -> list[int]:
        if minimum is None:
            return domains
        rows = np.flatnonzero(minimum)
        need = minimum[rows][:, None]
        if evict:
            nodes = self.session.nodes
            fits = (self.tree.sums_at(nodes.allocatable[rows], domains) >= need).all(axis=0)
        else:
            free = self._free.follow().sums[:, rows][..., domains]
            fits = np.logical_and.reduce(free >= need, axis=1).any(axis=0)
        return [each for each, yes in zip(domains, np.asarray(fits).tolist(), strict=True) if yes]

    @cached_property
    def _free(self) -> FollowedSums:
        """``[2, R, N]`` what nodes have idle, and what they have once all that is being released is gone."""
        nodes = self.session.nodes

        def free(columns: Index) -> Matrix:
            free: Matrix = np.empty((2, len(nodes.allocatable), len(columns)), dtype=np.int64)
            np.subtract(nodes.allocatable[:, columns], nodes.used[:, columns], out=free[0])
            np.add(free[0], nodes.releasing[:, columns] - nodes.pipelined[:, columns], out=free[1])
            return free

        return FollowedSums(self.session, free)

    def _widest(self, gradients: list[list[int]]) -> list[list[int]]:
        chosen, left = [], self.most_evict
        for gradient in reversed(gradients):
            if left > 0:
                chosen.append(gradient[:left])
                left -= len(gradient)
        return chosen

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """100 times the weight where the sub-group would fill a HyperNode up, 0 where it would overflow.

        The weighted mean over resources of (used + request) / allocatable; the request is that of all tasks of the
        sub-group (Volcano's formula). Equally good HyperNodes with some of its tasks get up to as much again.
        """
        request = requested(group.tasks, self.session.rows)
        share = self._share(request[self.rows])[list(domains)]
        best = np.equal(share, share.max(initial=0.0))
        if best.sum() > 1 and group.tasks:
            own = np.array([self._own(group, at) for at in domains], dtype=np.float64) / len(group.tasks)
            share = np.where(best, share + own, share)
        return share * 100.0 * self.weight

    def _own(self, group: SubGroup, at: int) -> int:
        return sum(number for leaf, number in group.on.items() if self.tree.is_above(at, leaf))

    def _share(self, request: Vector) -> FloatArray:
        """``[H]`` weighted mean of the used share with the request; 0 where a resource would overflow."""
        filling = self._fillings.get(request.tobytes())
        if filling is None:
            if len(self._fillings) >= _MOST_FILLINGS:
                self._fillings.clear()
            filling = self._fillings[request.tobytes()] = Filling(self.amounts, request, self.row_weights)
        return filling.share()

    # ---- nodes

    def group_score(self, group: SubGroup, columns: Index) -> FloatArray | None:
        """100 times the weight in the sub-group's own HyperNode, less the higher the tier that joins the node to it.

        Of equally near HyperNodes those come first that have most of its tasks, then as `FewestDomains` says.
        """
        if not group.wants_topology:
            return None
        leaves, codes = self._leaves(columns)
        if len(leaves) < 2:
            return None
        guide = self._guide
        if guide is None or guide.order.group is not group or guide.order.columns is not columns:
            order = FewestDomains(self.session, self.tree, group, columns, leaves, codes)
            guide = self._guide = LeafPoints(order, self.tree, leaves, 100.0 * self.weight, self._near)
        return guide.points()[codes]

    def _leaves(self, columns: Index) -> tuple[list[int], Index]:
        """Lowest HyperNodes of the nodes, each once, and which of them is each node's; the tree owns ``columns``."""
        cached = self._present.get(id(columns))
        if cached is None:
            leaves, codes = np.unique(self.tree.leaf[columns], return_inverse=True)
            cached = self._present[id(columns)] = (leaves.tolist(), codes.reshape(-1).astype(np.intp))
        return cached

    def stamp(self, pod_class: PodClass) -> int | None:
        """After each placement, where HyperNodes are weighed for the class."""
        return -1 if self._weighs(pod_class) else None

    def _weighs(self, pod_class: PodClass) -> bool:
        """Only pods of jobs that ask for no topology, where there are HyperNodes."""
        subject = self.session.subject
        if not self.normal or len(self.tree) == 1 or (subject is not None and wants_topology(self.session, subject)):
            return False
        asked = self._weighed.get(pod_class.id)
        if asked is None:
            asked = self._weighed[pod_class.id] = bool(fitted(pod_class.vector, self.session.rows)[self.rows].any())
        return asked

    def batch_score(self, pod_class: PodClass, nodes: NodeView, candidates: BoolArray) -> FloatArray | None:
        """How full the HyperNodes above a node would be, lower tiers counting more.

        A node outside of the HyperNodes of a tier counts as if that were full: pods without topology go there first.
        """
        lines = self._lines(pod_class) if self._weighs(pod_class) else None
        return None if lines is None else lines.points()[lines.codes]

    def line_score(self, pod_class: PodClass) -> FillingOfLines | None:
        """The same by lines of nodes that the same HyperNodes hold."""
        return self._lines(pod_class)

    def _lines(self, pod_class: PodClass) -> FillingOfLines | None:
        request = fitted(pod_class.vector, self.session.rows)[self.rows]
        lines = self._by_lines.get(request.tobytes())
        if lines is None:
            weights = [self.fading ** max(tier - 1, 0) for tier in self.tree.levels]
            if sum(weights) <= 0:
                return None
            filling = Filling(self.amounts, request, self.row_weights)
            lines = FillingOfLines(filling, self.tree, weights, 100.0 * self.weight)
            self._by_lines[request.tobytes()] = lines
        return lines
