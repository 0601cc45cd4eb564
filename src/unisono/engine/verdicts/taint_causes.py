"""Which taints keep a pod away from nodes: those that users put there, and those that tell a node's state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unisono.api.annotations import QUARANTINE
from unisono.api.core import Taint
from unisono.api.keys import (
    AKS_PREEMPTION,
    AUTOSCALER_DELETES,
    GKE_TERMINATION,
    KARPENTER_DISRUPTED,
    KARPENTER_DISRUPTION,
    KARPENTER_UNREGISTERED,
    NODE_DISK_PRESSURE,
    NODE_MEMORY_PRESSURE,
    NODE_NETWORK_UNAVAILABLE,
    NODE_NOT_READY,
    NODE_OUT_OF_SERVICE,
    NODE_PID_PRESSURE,
    NODE_UNREACHABLE,
    NODE_UNSCHEDULABLE,
)
from unisono.api.messages import plural
from unisono.api.names import nearest
from unisono.cluster.podclass import PodClass
from unisono.cluster.taints import tolerated
from unisono.engine.changes import listed
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.common.node_selectors import is_state, match_pod
from unisono.engine.session.limit import tasks_fitting

_REPELLING = ("NoSchedule", "NoExecute")
_SAID_BY_NODES = (NODE_NOT_READY, NODE_UNREACHABLE, NODE_UNSCHEDULABLE)
"""Taints of nodes that are named already, as not ready or cordoned."""
_MEANINGS = {
    QUARANTINE: "in quarantine",
    NODE_NOT_READY: "not ready",
    NODE_UNREACHABLE: "unreachable",
    NODE_UNSCHEDULABLE: "cordoned",
    NODE_MEMORY_PRESSURE: "short of memory",
    NODE_DISK_PRESSURE: "short of disk space",
    NODE_PID_PRESSURE: "short of process IDs",
    NODE_NETWORK_UNAVAILABLE: "without a network",
    NODE_OUT_OF_SERVICE: "out of service",
    "node.cloudprovider.kubernetes.io/uninitialized": "not yet set up by the cloud provider",
    "node.cloudprovider.kubernetes.io/shutdown": "shut down",
    GKE_TERMINATION: "about to be shut down by the cloud",
    AKS_PREEMPTION: "about to be shut down by the cloud",
    AUTOSCALER_DELETES: "about to be removed by the autoscaler",
    KARPENTER_DISRUPTED: "about to be removed by Karpenter",
    KARPENTER_DISRUPTION: "about to be removed by Karpenter",
    KARPENTER_UNREGISTERED: "not yet registered with Karpenter",
}
"""What a node is that has such a taint."""


def taint_text(key: str, value: str, effect: str) -> str:
    """``key=value:effect``."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def untolerated(cycle: Cycle, pod_class: PodClass) -> Iterator[str]:
    """Taints that are not tolerated on nodes that the selector allows, those on most nodes first."""
    nodes, where = cycle.session.nodes, dict[tuple[str, str, str], list[int]]()
    allowed = match_pod(pod_class, nodes)
    codes = np.where(allowed, nodes.taint_codes, -1) if allowed.any() else nodes.taint_codes
    for code in np.unique(codes[codes >= 0]).tolist():
        for taint in nodes.table.taint_sets[code]:
            known = (
                taint.key in _SAID_BY_NODES
                and not (nodes.table.ready & ~nodes.table.unschedulable)[codes == code].any()
            )
            if taint.effect in _REPELLING and not known and not tolerated(taint, pod_class.tolerations):
                name = taint.key or "", taint.value or "", taint.effect or ""
                where.setdefault(name, []).extend(np.flatnonzero(codes == code).tolist())
    for (key, value, effect), columns in sorted(where.items(), key=lambda item: (-len(item[1]), item[0])):
        names = tuple(nodes.table.names[at] for at in sorted(columns))
        facts = nodes.table.facts[min(columns)]
        why = f", {names[0]} because {facts.annotations[QUARANTINE]}" if QUARANTINE in facts.annotations else ""
        yield _of_taint(Taint(key=key, value=value or None, effect=effect), names, pod_class, why)


def recovery(cycle: Cycle, pod_class: PodClass) -> str:
    """What to do, in words, where only their state keeps all nodes away that could hold a pod; else ``""``."""
    nodes = cycle.session.nodes
    able = match_pod(pod_class, nodes) & (tasks_fitting(nodes.allocatable, pod_class) > 0)
    usable = nodes.table.ready & ~nodes.table.unschedulable
    in_state, others = np.zeros(nodes.size, np.bool_), np.zeros(nodes.size, np.bool_)
    for code, taints in enumerate(nodes.table.taint_sets):
        kept = [one for one in taints if one.effect in _REPELLING and not tolerated(one, pod_class.tolerations)]
        states = [is_state(one) for one in kept]
        in_state |= (nodes.taint_codes == code) & bool(states and all(states))
        others |= (nodes.taint_codes == code) & (not all(states))
    away = able & usable & in_state
    if not away.any() or (able & usable & ~in_state & ~others).any():
        return ""
    names = tuple(nodes.table.names[at] for at in np.flatnonzero(away).tolist())
    return f"see that {plural(len(names), 'node')} {listed(names)} can be used again, or add other nodes"


def _meaning(key: str) -> str:
    domain, _, name = key.partition("/")
    if name == "agent-not-ready":
        return f"waiting for the agent of {domain}"
    return _MEANINGS.get(key, "not to be used at present")


def _of_taint(taint: Taint, names: tuple[str, ...], pod_class: PodClass, why: str) -> str:
    key, value = taint.key or "", taint.value or ""
    text = taint_text(key, value, taint.effect or "")
    if is_state(taint):
        are = f"{plural(len(names), 'node')} {listed(names)} {'is' if len(names) == 1 else 'are'}"
        lift = f"{why}; who may change nodes lifts it: unisono node lift {names[0]}" if key == QUARANTINE else ""
        return f"{are} {_meaning(key)} (taint {text}){lift}"
    others = [one.value or "" for one in pod_class.tolerations if one.key == key and one.operator != "Exists"]
    keys = [one.key or "" for one in pod_class.tolerations if one.key != key]
    told = ""
    if others:
        told = f" (they tolerate {key}={others[0]})"
    elif near := nearest(key, keys):
        told = f" (they tolerate {near})"
    return f"the pods do not tolerate the taint {text} of {listed(names)}{told}"
