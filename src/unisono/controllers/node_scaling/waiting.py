"""Gangs that wait for nodes, as their verdicts tell, and what their pods need of a node."""

from __future__ import annotations

from unisono.api.annotations import GANG_PARTS
from unisono.api.core import Pod, PodSpec
from unisono.api.gang_parts import decode_parts
from unisono.api.groups.scheduling import PodGroup
from unisono.api.membership import pod_group_of
from unisono.api.resources import pod_requests, resource_list
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


def demand_of(spec: PodSpec, count: int = 1) -> Demand:
    """What so many pods of this spec need of nodes."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return Demand(
        pod_requests(spec),
        dict(spec.node_selector or {}),
        tuple(spec.tolerations or ()),
        count,
        affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None,
    )


def promised(group: PodGroup) -> list[Demand]:
    """A gang whose pods are made after its admission: its parts, or its minimum in equal ones."""
    parts = decode_parts((group.metadata.annotations or {}).get(GANG_PARTS, ""))
    if parts:
        return [demand_of(part.spec, part.count) for part in parts if part.count > 0]
    count = group.spec.min_member or 0
    total = {name: each for name, each in resource_list(group.spec.min_resources).items() if not _is_of_quota(name)}
    if not total or count <= 0:
        return []
    return [Demand({name: -(-amount // count) for name, amount in total.items()}, count=count)]


def _is_of_quota(name: str) -> bool:
    """Only quotas know the name: no node offers it."""
    return name == "pods" or name.startswith(("requests.", "limits.", "count/"))
