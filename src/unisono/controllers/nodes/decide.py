"""What a node's heartbeat and taints mean: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.api.conditions import find_condition
from unisono.api.core import DeviceTaint, DeviceToleration, Node, NodeCondition, Pod, Taint, Toleration
from unisono.api.keys import NODE_DISK_PRESSURE, NODE_NOT_READY, NODE_OUT_OF_SERVICE, NODE_UNREACHABLE
from unisono.api.times import rfc3339, time_or
from unisono.controllers.workloads.node_fit import covers

_OWN = (NODE_DISK_PRESSURE, NODE_NOT_READY, NODE_UNREACHABLE)
_REPELLING = ("NoSchedule", "NoExecute")


def ready(node: Node) -> NodeCondition | None:
    """The node's Ready condition."""
    return find_condition(node.status.conditions, "Ready")


def out_of_service(node: Node) -> bool:
    """An administrator, or a program for machines, says that it is off; believed only while it is not ready."""
    ready_condition = ready(node)
    off = any(each.key == NODE_OUT_OF_SERVICE for each in node.spec.taints or ())
    return off and ready_condition is not None and ready_condition.status != "True"


def lost_conditions(node: Node, now: float) -> list[NodeCondition] | None:
    """Conditions of a node that has fallen silent; None when they say so already."""
    ready_condition = ready(node)
    if ready_condition is not None and ready_condition.status == "Unknown":
        return None
    stamp = rfc3339(now)
    lost = NodeCondition(
        type="Ready",
        status="Unknown",
        reason="NodeStatusUnknown",
        message="The node agent stopped posting node status.",
        last_heartbeat_time=ready_condition.last_heartbeat_time if ready_condition is not None else None,
        last_transition_time=stamp,
    )
    return [*(each for each in node.status.conditions or () if each.type != "Ready"), lost]


def wanted_taints(node: Node, now: float) -> list[Taint] | None:
    """The node's taints as its conditions Ready and DiskPressure ask for them; None when they are right.

    Taints of others stay; a taint that is there keeps the time at which it came.
    """
    ready_condition = ready(node)
    key = (
        ""
        if ready_condition is None or ready_condition.status == "True"
        else NODE_UNREACHABLE
        if ready_condition.status == "Unknown"
        else NODE_NOT_READY
    )
    wanted = [(key, effect) for effect in _REPELLING if key]
    if any((each.type, each.status) == ("DiskPressure", "True") for each in node.status.conditions or ()):
        wanted.append((NODE_DISK_PRESSURE, "NoSchedule"))
    present = list(node.spec.taints or ())
    kept = [each for each in present if each.key not in _OWN or each.key in {name for name, _ in wanted}]
    for name, effect in wanted:
        if not any((each.key, each.effect) == (name, effect) for each in kept):
            kept.append(Taint(key=name, effect=effect, time_added=rfc3339(now)))
    return None if kept == present else kept


def eviction_time(pod: Pod, taints: Sequence[Taint], seen: float) -> float | None:
    """When the pod must leave a node with these taints, seconds since 1970; None when it may stay.

    Args:
        pod: a pod on the node.
        taints: the node's taints.
        seen: since when this process knows of them: after a pause of the control plane no pod is evicted for a time in
            which no node could be heard.

    """
    return time_to_leave(pod.spec.tolerations or (), taints, seen)


def time_to_leave(
    tolerations: Sequence[Toleration | DeviceToleration], taints: Sequence[Taint | DeviceTaint], seen: float
) -> float | None:
    """When NoExecute taints end what has these tolerations, seconds since 1970; None: never. ``seen`` is as above."""
    due: list[float] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        fitting = [each for each in tolerations if covers(each, taint)]
        since = max(seen, time_or(taint.time_added, seen))
        if not fitting:
            due.append(since)
            continue
        limits = [each.toleration_seconds for each in fitting if each.toleration_seconds is not None]
        if limits:
            due.append(since + max(0, min(limits)))
    return min(due) if due else None


def disrupted(
    pod: Pod,
    now: float,
    reason: str = "DeletionByTaintManager",
    message: str = "Taint manager: deleting due to NoExecute taint",
) -> list[dict[str, object]]:
    """The pod's conditions with the one that tells why it is deleted."""
    others = [msgspec.to_builtins(each) for each in pod.status.conditions or () if each.type != "DisruptionTarget"]
    told = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }
    return [*others, told]
