"""Gangs that wait for nodes, as their verdicts tell, and what their pods need of a node."""

from __future__ import annotations

from unisono.api.core import Pod
from unisono.api.membership import pod_group_of
from unisono.api.resources import pod_requests
from unisono.api.scheduling import PodGroup
from unisono.api.verdict import Cause, Verdict, verdict_in
from unisono.controllers.node_scaling.decide import Demand

CAUSES = frozenset({Cause.NODES_FULL, Cause.TOO_LARGE, Cause.FILTERS, Cause.CLUSTER_OVERCOMMITTED, Cause.NO_NODES})
"""Verdicts that more nodes can change; a queue's limits are not among them."""
PATIENCE = 20.0
"""Seconds that a gang waits before nodes are made for it."""
POD_INDEX = "pod-group-of-pod"


def verdict_of(group: PodGroup) -> Verdict:
    """The scheduler's latest verdict; one without a cause where there is none."""
    return verdict_in(group.metadata.annotations) or Verdict()


def groups_of(pod: Pod) -> list[str]:
    """Index function: key of the pod's PodGroup."""
    return [key] if (key := pod_group_of(pod)) else []


def is_pending(pod: Pod) -> bool:
    """The pod has no node and has not ended."""
    return not pod.spec.node_name and pod.status.phase in (None, "", "Pending")


def demand_of(pod: Pod) -> Demand:
    """What the pod needs of a node."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return Demand(
        pod_requests(pod.spec),
        dict(pod.spec.node_selector or {}),
        tuple(pod.spec.tolerations or ()),
        affinity=affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None,
    )
