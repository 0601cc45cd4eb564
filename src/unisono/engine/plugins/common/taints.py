"""Taints over whole columns of nodes, and what they say of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from unisono.api.core import Taint, Toleration
from unisono.api.keys import (
    AKS_PREEMPTION,
    AUTOSCALER_DELETES,
    GKE_TERMINATION,
    KARPENTER_DISRUPTED,
    KARPENTER_DISRUPTION,
    KARPENTER_UNREGISTERED,
    NODE_NOT_READY,
    NODE_UNSCHEDULABLE,
)
from unisono.cluster.taints import tolerated
from unisono.engine.session.node_view import NodeView

UNSCHEDULABLE = Taint(key=NODE_UNSCHEDULABLE, effect="NoSchedule")
NOT_READY = Taint(key=NODE_NOT_READY, effect="NoSchedule")
_STATES = (
    *("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "aws-node-termination-handler/"),
    *(AUTOSCALER_DELETES, "DeletionCandidateOfClusterAutoscaler"),
    *(KARPENTER_DISRUPTED, KARPENTER_DISRUPTION, KARPENTER_UNREGISTERED),
    *("startup-taint.cluster-autoscaler.kubernetes.io/", "status-taint.cluster-autoscaler.kubernetes.io/"),
    *("ignore-taint.cluster-autoscaler.kubernetes.io/", GKE_TERMINATION, AKS_PREEMPTION),
)
_BEGINNING = ("/agent-not-ready", "/not-ready")


def is_state(taint: Taint) -> bool:
    """Whether a taint tells a node's state, such as ``not-ready``: it comes and goes, and no pod should tolerate it."""
    key = taint.key or ""
    return key.startswith(_STATES) or key.endswith(_BEGINNING)


def discouraging(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
    """Number of PreferNoSchedule taints that no toleration with that effect, or with none, covers."""
    fitting = [t for t in tolerations if not t.effect or t.effect == "PreferNoSchedule"]
    return sum(taint.effect == "PreferNoSchedule" and not tolerated(taint, fitting) for taint in taints)


def per_node(nodes: NodeView, ask: Callable[[Sequence[Taint]], int]) -> npt.NDArray[np.int64]:
    """``[M]`` answers of ``ask`` for each node's taints; each distinct set of taints is asked about once."""
    codes = nodes.taint_codes
    answers = np.zeros(len(nodes.table.taint_sets), dtype=np.int64)
    for code in np.flatnonzero(np.bincount(codes, minlength=len(answers))) if len(codes) else ():
        answers[code] = ask(nodes.table.taint_sets[code])
    return answers[codes]
