"""Nodes that would have what a job asks for and cannot be used: tainted, not ready, cordoned, or without devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
from unisono.cluster.nodes import NodeFacts
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
            already_said = (
                taint.key in _SAID_BY_NODES
                and not (nodes.table.ready & ~nodes.table.unschedulable)[codes == code].any()
            )
            if taint.effect in _REPELLING and not already_said and not tolerated(taint, pod_class.tolerations):
                name = taint.key or "", taint.value or "", taint.effect or ""
                where.setdefault(name, []).extend(np.flatnonzero(codes == code).tolist())
    for (key, value, effect), columns in sorted(where.items(), key=lambda item: (-len(item[1]), item[0])):
        names = tuple(nodes.table.names[at] for at in sorted(columns))
        facts = nodes.table.facts[min(columns)]
        why = f", {names[0]} because {facts.annotations[QUARANTINE]}" if QUARANTINE in facts.annotations else ""
        yield _of_taint(Taint(key=key, value=value or None, effect=effect), names, pod_class, why)


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
    hint = ""
    if others:
        hint = f" (they tolerate {key}={others[0]})"
    elif near := nearest(key, keys):
        hint = f" (they tolerate {near})"
    return f"the pods do not tolerate the taint {text} of {listed(names)}{hint}"


def out_of_sight(cycle: Cycle, rows: list[int]) -> list[str]:
    """``2 of 3 nodes are cordoned (a and b)``, of nodes that have what is asked for."""
    nodes = cycle.session.nodes
    table, has = nodes.table, (nodes.allocatable[rows] > 0).all(axis=0)
    parts = []
    for mask, word in ((~table.ready, "not ready"), (table.ready & table.unschedulable, "cordoned")):
        away = np.flatnonzero(mask & has)
        if away.size:
            are = "is" if away.size == 1 else "are"
            which = listed(tuple(table.names[index] for index in away.tolist()))
            parts.append(f"{away.size} of {int(has.sum())} nodes {are} {word} ({which})")
    return parts


def bringing_back(cycle: Cycle, names: Iterable[str], pod_class: PodClass | None = None) -> str:
    """What to do, in words, with nodes that cannot be used and have all of some resources; empty where none are.

    ``pod_class``: also with those that could hold such a pod and are kept from it by nothing but their state, where
    there are no others.
    """
    nodes, registry = cycle.session.nodes, cycle.session.registry
    asked, table = [name for name in names if registry.find(name) is not None], nodes.table
    has = (nodes.allocatable[[registry.requested(name) for name in asked]] > 0).all(axis=0) & bool(asked)
    passing = np.zeros(nodes.size, np.bool_)
    if pod_class is not None:
        able = match_pod(pod_class, nodes) & (tasks_fitting(nodes.allocatable, pod_class) > 0)
        able &= table.ready & ~table.unschedulable
        kept = [[is_state(one) for one in _repelling(taints, pod_class)] for taints in table.taint_sets]
        codes = nodes.taint_codes
        passing = able & np.isin(codes, [code for code, states in enumerate(kept) if states and all(states)])
        free = able & np.isin(codes, [code for code, states in enumerate(kept) if not states])
        passing &= not free.any()
    parts = (
        (np.flatnonzero(has & table.ready & table.unschedulable), "uncordon {}"),
        (np.flatnonzero(has & ~table.ready), "see why {} {} not ready"),
        (np.flatnonzero(passing), "see that {} can be used again, or add other nodes"),
        (
            np.array([at for at, facts in enumerate(table.facts) if facts.unhealthy and _lost(facts, asked)], np.intp),
            "see to the device plug-in of {}",
        ),
    )
    remedies = []
    for columns, text in parts:
        which = listed(tuple(table.names[at] for at in columns.tolist()))
        remedies += [text.format(which, "is" if len(columns) == 1 else "are")] if columns.size else []
    return listed(tuple(remedies)) if remedies else ""


def _repelling(taints: Iterable[Taint], pod_class: PodClass) -> list[Taint]:
    """Those that keep a class away."""
    return [one for one in taints if one.effect in _REPELLING and not tolerated(one, pod_class.tolerations)]


def _lost(facts: NodeFacts, asked: Sequence[str]) -> bool:
    """Whether devices that are asked for are there, and none of them is healthy."""
    dead = [name for name in asked if name in facts.unhealthy]
    return bool(dead) and not any(facts.allocatable.get(name, 0) for name in dead)
