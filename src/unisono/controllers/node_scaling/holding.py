"""What nodes hold, as far as giving machines back goes by it (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from unisono.api.annotations import SCALE_DOWN
from unisono.api.core import Node, Pod, PodDisruptionBudget
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import DO_NOT_DISRUPT, MIRROR_POD, SAFE_TO_EVICT, SCALE_DOWN_DISABLED
from unisono.api.membership import controller_of, pod_group_of
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_requests, resource_list
from unisono.api.selecting import selects
from unisono.controllers.node_scaling.decide import Pool
from unisono.controllers.node_scaling.shrink import Held
from unisono.controllers.node_scaling.waiting import demand_of

_REPLACED = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Owners that make a pod once more when it is gone, and whose pods lose little by that."""


def held_by(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    pool_of_node: Mapping[str, str],
    groups: Mapping[str, PodGroup],
    budgets: Sequence[PodDisruptionBudget],
) -> list[Held]:
    """All nodes that take pods, with their free room and the pods that may or must not move.

    Args:
        nodes: all nodes.
        pods: all pods.
        pool_of_node: pool by node name.
        groups: PodGroups by key.
        budgets: all disruption budgets.

    """
    on_node: dict[str, list[Pod]] = {}
    running: Counter[str] = Counter()
    for pod in pods:
        if pod.spec.node_name and not has_ended(pod):
            on_node.setdefault(pod.spec.node_name, []).append(pod)
            running[pod_group_of(pod)] += 1
    return [
        _held(node, on_node.get(node.metadata.name, []), pool_of_node, groups, running, budgets)
        for node in nodes
        if takes_pods(node)
    ]


def _held(
    node: Node,
    pods: Sequence[Pod],
    pool_of_node: Mapping[str, str],
    groups: Mapping[str, PodGroup],
    running: Mapping[str, int],
    budgets: Sequence[PodDisruptionBudget],
) -> Held:
    name, notes = node.metadata.name, node.metadata.annotations or {}
    free = resource_list(node.status.allocatable)
    for pod in pods:
        for resource, amount in pod_requests(pod.spec).items():
            free[resource] = free.get(resource, 0) - amount
    free["pods"] = free.get("pods", 0) - len(pods)
    taints = node.spec.taints or ()
    room = Pool(
        name,
        1,
        0,
        1,
        {resource: max(0, amount) for resource, amount in free.items()},
        node.metadata.labels or {},
        tuple(taint for taint in taints if taint.key != SCALE_DOWN),
    )
    mine = [pod for pod in pods if not is_of_node(pod)]
    stays = next(filter(None, (why_it_stays(pod, budgets) for pod in mine)), "")
    if notes.get(SCALE_DOWN_DISABLED) == "true" or notes.get(DO_NOT_DISRUPT) == "true":
        stays = "its annotations say that it is to be kept"
    here = Counter(key for pod in mine if (key := pod_group_of(pod)))
    for key, count in here.items():
        group = groups.get(key)
        least = group.spec.min_member or 0 if group is not None else 0
        if least > 1 and running[key] - count < least:
            stays = f"it runs pods of the gang {key}, which needs {least}"
    movable = () if stays else tuple(demand_of(pod.spec) for pod in mine)
    return Held(name, pool_of_node.get(name, ""), room, movable, stays, any(each.key == SCALE_DOWN for each in taints))


def is_of_node(pod: Pod) -> bool:
    """The pod belongs to its node and goes with it."""
    owner = controller_of(pod)
    return (owner is not None and owner.kind == "DaemonSet") or MIRROR_POD in (pod.metadata.annotations or {})


def why_it_stays(pod: Pod, budgets: Iterable[PodDisruptionBudget]) -> str:
    """Why the pod may not be moved; empty when it may. Gangs are not looked at."""
    notes, owner = pod.metadata.annotations or {}, controller_of(pod)
    if notes.get(SAFE_TO_EVICT) == "false" or notes.get(DO_NOT_DISRUPT) == "true":
        return f"pod {pod.key} says that it is not to be moved"
    if notes.get(SAFE_TO_EVICT) != "true" and (owner is None or owner.kind not in _REPLACED):
        return f"pod {pod.key} would lose its work"
    for budget in budgets:
        same = budget.metadata.namespace == pod.metadata.namespace
        if same and selects(budget.spec.selector, pod.metadata.labels) and not budget.status.disruptions_allowed:
            return f"the disruption budget {budget.key} keeps pod {pod.key}"
    return ""


def takes_pods(node: Node) -> bool:
    """The node is ready and stays, and is open to new pods."""
    ready = next((each.status for each in node.status.conditions or () if each.type == "Ready"), "")
    return ready == "True" and not node.spec.unschedulable and node.metadata.deletion_timestamp is None
