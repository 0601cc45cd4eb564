"""Gangs that wait for nodes, as their verdicts tell."""

from __future__ import annotations

import json
from typing import Any

from unisono.api.annotations import VERDICT
from unisono.api.core import Pod
from unisono.api.scheduling import PodGroup
from unisono.controllers import keys

CAUSES = frozenset({"NodesFull", "TooLarge", "Filters", "ClusterOvercommitted", "NoNodes"})
"""Verdicts that more nodes can change; a queue's limits are not among them."""
PATIENCE = 20.0
"""Seconds that a gang waits before nodes are made for it."""
POD_INDEX = "pod-group-of-pod"


def verdict_of(group: PodGroup) -> dict[str, Any]:
    """The scheduler's latest verdict; empty without one that can be read."""
    try:
        found = json.loads((group.metadata.annotations or {}).get(VERDICT, "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def groups_of(pod: Pod) -> list[str]:
    """Index function: key of the pod's group."""
    name = (pod.metadata.annotations or {}).get(keys.GROUP_NAME)
    return [f"{pod.metadata.namespace}/{name}"] if name else []


def is_pending(pod: Pod) -> bool:
    """The pod has no node and has not ended."""
    return not pod.spec.node_name and pod.status.phase in (None, "", "Pending")
