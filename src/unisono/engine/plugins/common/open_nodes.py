"""Nodes that pods of a class may use, whatever room they have."""

from __future__ import annotations

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.cluster.taints import repels, tolerated
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_pod
from unisono.engine.plugins.common.taints import NOT_READY, UNSCHEDULABLE, per_node
from unisono.engine.session.node_view import NodeView


def open_nodes(pod_class: PodClass, nodes: NodeView) -> BoolArray:
    """``[N]`` nodes that selectors, affinity, taints, cordons and readiness let the class use."""
    mask = match_pod(pod_class, nodes) & (per_node(nodes, lambda taints: repels(taints, pod_class.tolerations)) == 0)
    if not tolerated(UNSCHEDULABLE, pod_class.tolerations):
        mask = mask & ~nodes.unschedulable
    if not tolerated(NOT_READY, pod_class.tolerations):
        mask = mask & nodes.table.ready
    return np.asarray(mask, dtype=np.bool_)
