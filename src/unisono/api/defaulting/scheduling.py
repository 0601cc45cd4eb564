"""Defaults of pod groups and queues."""

from __future__ import annotations

from unisono.api.defaulting.job import default_topology
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.api.membership import DEFAULT_QUEUE
from unisono.api.scheduling import PodGroup, Queue

ROOT_QUEUE = "root"


def default_pod_group(group: PodGroup) -> None:
    """Queue ``default``; subgroups of one pod."""
    group.spec.queue = group.spec.queue or DEFAULT_QUEUE
    default_topology(group.spec.network_topology)
    for policy in group.spec.sub_group_policy or ():
        if policy.sub_group_size is None:
            policy.sub_group_size = 1
        default_topology(policy.network_topology)


def default_queue(queue: Queue) -> None:
    """Weight 1, reclaimable, a child of root; hierarchy annotations start at root."""
    spec = queue.spec
    # Zero means absent, as in Volcano.
    spec.weight = spec.weight or 1
    if spec.reclaimable is None:
        spec.reclaimable = queue.metadata.name != ROOT_QUEUE
    if queue.metadata.name != ROOT_QUEUE:
        spec.parent = spec.parent or ROOT_QUEUE
    spec.dequeue_strategy = spec.dequeue_strategy or "traverse"
    annotations = queue.metadata.annotations or {}
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if path and weights and path.split("/")[0] != ROOT_QUEUE:
        annotations[HIERARCHY] = f"{ROOT_QUEUE}/{path}"
        annotations[HIERARCHY_WEIGHTS] = f"1/{weights}"
