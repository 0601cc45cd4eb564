"""cluster-preference and cost: clusters of a fleet that a job had better go to, and what costs less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from unisono.api.annotations import CLUSTER, CLUSTER_POINTS, PRICES
from unisono.api.node_usage import cost_per_hour, parse_prices
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import fitted
from unisono.engine.answers import FloatArray
from unisono.engine.config.arguments import Argument, argument_value
from unisono.engine.config.model import PluginConfig
from unisono.engine.contract.plugin import Plugin
from unisono.engine.session.node_view import NodeView

if TYPE_CHECKING:
    from unisono.engine.session.session import Session
    from unisono.engine.session.sub_groups import SubGroup

# cost: prefers nodes and clusters in which a job costs less.
#
# Prices stand in the annotation ``unisono.io/prices`` of nodes; a fleet's hub gives each node those of its member.
# Nodes without prices cost nothing.

_WEIGHT = Argument("cost.weight", "int", 10, "multiplies all points; negative means 1")


class CostPlugin(Plugin):
    """100 times the weight where nothing is to be paid, 0 at the highest price of all."""

    name = "cost"
    known_arguments = (_WEIGHT,)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        weight = int(argument_value(_WEIGHT, self.arguments))
        self.weight = 1 if weight < 0 else weight

    def open(self, session: Session) -> None:
        """Read the prices, each text once."""
        self.tree = session.snapshot.hyper_nodes
        texts: dict[str, int] = {}
        # [N] which of the lists of prices is each node's.
        codes = [texts.setdefault(facts.annotations.get(PRICES, ""), len(texts)) for facts in session.nodes.facts]
        self.codes = np.array(codes, dtype=np.intp)
        self.prices = [_prices(text) for text in texts]
        self.priced = any(self.prices)

    def score(self, pod_class: PodClass, nodes: NodeView) -> FloatArray | None:
        """Points of each node for one pod."""
        if not self.priced or not self.weight:
            return None
        costs = self._costs(pod_class.requests)
        return self._points(costs[self.codes[nodes.columns]], float(costs.max()))

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """Points of each domain for all tasks of a group, at the mean price of its nodes."""
        if not self.priced or not self.weight:
            return np.zeros(len(domains))
        request: Counter[str] = Counter()
        for task in group.tasks:
            request.update(task.pod_class.requests)
        costs = self._costs(request)
        own = [costs[self.codes[self.tree.columns[at]]] for at in domains]
        means = np.array([each.mean() if len(each) else 0.0 for each in own], dtype=np.float64)
        return self._points(means, float(costs.max()))

    def _costs(self, request: dict[str, int] | Counter[str]) -> FloatArray:
        """Cost of an hour by list of prices."""
        return np.array([cost_per_hour(request, prices) for prices in self.prices], dtype=np.float64)

    def _points(self, costs: FloatArray, highest: float) -> FloatArray:
        if highest <= 0:
            return np.zeros(len(costs))
        return 100.0 * self.weight * (1.0 - costs / highest)


def _prices(text: str) -> dict[str, float]:
    """The prices of a text; one that cannot be read says nothing."""
    try:
        return parse_prices(text)
    except ValueError:
        return {}


# cluster-preference: the clusters of a fleet that a job had better go to.
#
# The hub writes points by reason and cluster on the pods that stand for a job: ``tier`` for the order of groups of a
# PropagationPolicy, ``data`` for how fast a cluster has the job's data, ``affinity`` for preferred node affinity
# about labels of clusters, ``stickiness`` for the cluster in which the job was last. ``spread`` is worked out here: how
# much of the cluster is free.

Points = Mapping[str, Mapping[str, float]]

_WEIGHTS = {
    "tier": Argument("tier.weight", "int", 100, "multiplies points for earlier groups of a policy"),
    "data": Argument("data.weight", "int", 10, "multiplies points for having data, or getting them fast"),
    "affinity": Argument("affinity.weight", "int", 10, "multiplies points for preferred labels of clusters"),
    "stickiness": Argument("stickiness.weight", "int", 5, "multiplies points for the cluster of the last run"),
}
_SPREAD = Argument("spread.weight", "int", 0, "multiplies points for the share of the cluster that is free")


class ClusterPreferencePlugin(Plugin):
    """Points of domains, from the points of the clusters in which they lie; a negative weight means 0."""

    name = "cluster-preference"
    known_arguments = (*_WEIGHTS.values(), _SPREAD)

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        self.weights = {reason: self._weight(argument) for reason, argument in _WEIGHTS.items()}
        self.spread = self._weight(_SPREAD)

    def _weight(self, argument: Argument) -> int:
        return max(0, int(argument_value(argument, self.arguments)))

    def open(self, session: Session) -> None:
        """Keep the session; points are read once for each text."""
        self.session, self.tree = session, session.snapshot.hyper_nodes
        self._read: dict[str, Points] = {}
        self._clusters: dict[int, str] = {}

    def domain_points(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """Points of each domain for all tasks of a group."""
        total: FloatArray = np.zeros(len(domains), dtype=np.float64)
        text = group.tasks[0].pod_class.notes.get(CLUSTER_POINTS, "") if group.tasks else ""
        if text:
            by_reason = self._points(text)
            clusters = [self._cluster(at) for at in domains]
            for reason, weight in self.weights.items():
                own = by_reason.get(reason)
                if own and weight:
                    total += weight * np.array([own.get(cluster, 0.0) for cluster in clusters], dtype=np.float64)
        if self.spread and group.tasks:
            total += 100.0 * self.spread * self._free(group, domains)
        return total

    def _points(self, text: str) -> Points:
        points = self._read.get(text)
        if points is None:
            try:
                points = msgspec.json.decode(text, type=dict[str, dict[str, float]])
            except (msgspec.MsgspecError, RecursionError):
                points = {}
            self._read[text] = points
        return points

    def _cluster(self, domain: int) -> str:
        """The cluster in which a domain lies; empty for one that spans several."""
        cluster = self._clusters.get(domain)
        if cluster is None:
            columns, facts = self.tree.columns[domain], self.session.nodes.facts
            ends = {facts[int(at)].labels.get(CLUSTER, "") for at in (*columns[:1], *columns[-1:])}
            cluster = self._clusters[domain] = ends.pop() if len(ends) == 1 else ""
        return cluster

    def _free(self, group: SubGroup, domains: Sequence[int]) -> FloatArray:
        """``[len(domains)]`` share that is free of what the group asks for, the mean over resources."""
        asked = fitted(group.tasks[0].pod_class.vector, self.session.rows)
        rows, nodes = np.flatnonzero(asked), self.session.nodes
        shares = []
        for at in domains:
            columns = self.tree.columns[at]
            whole = nodes.allocatable[rows][:, columns].sum(axis=1)
            free = whole - nodes.used[rows][:, columns].sum(axis=1)
            shares.append(
                float((free[whole > 0] / whole[whole > 0]).clip(0.0, 1.0).mean()) if (whole > 0).any() else 0.0
            )
        return np.array(shares, dtype=np.float64)
