"""Image locality: prefers nodes that have much of a pod's images already (formula of kube-scheduler 1.36)."""

from __future__ import annotations

import numpy as np

from unisono.cluster.podclass import PodClass
from unisono.engine.answers import FloatArray
from unisono.engine.session.node_view import NodeView

_MIB = 1024 * 1024
_LEAST = 23 * _MIB
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
    most = max(_MOST_PER_CONTAINER * containers, _LEAST + 1)
    return np.asarray(100 * (np.clip(total, _LEAST, most) - _LEAST) // (most - _LEAST), dtype=np.float64)
