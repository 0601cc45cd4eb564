"""Pods are bound once, while they wait, to a node that takes them: room, taints, selectors, ports, readiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.check.facts import Amounts, Pod, Turn, add, amounts
from benchmarks.check.rules.selectors import requirement

_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    nodes = turn.facts.all("Node")
    for key, number in Counter(key for key, _ in turn.binds).items():
        if number > 1:
            yield f"pod {key} is bound {number} times"
    for key, name in turn.binds:
        pod = turn.facts.pods.get(key)
        if pod is None or name not in nodes:
            yield f"bind of pod {key} to node {name}: one of the two does not exist"
            continue
        yield from _pod(pod)
        yield from _node(pod, nodes[name])
    yield from _ports(turn)
    for name in {name for _, name in turn.binds if name in nodes}:
        yield from _room(turn, name, nodes[name])


def _pod(pod: Pod) -> Iterator[str]:
    if not pod.ours:
        yield f"pod {pod.key} belongs to another scheduler and is bound"
    if not pod.waits:
        yield f"pod {pod.key} is bound but does not wait (gated {pod.gated}, node {pod.node!r}, phase {pod.phase})"


def _node(pod: Pod, node: Mapping[str, Any]) -> Iterator[str]:
    name = node["metadata"]["name"]
    spec = node["spec"]
    if not ready(node):
        yield f"pod {pod.key} is bound to node {name}, which is not ready"
    taints = list(spec.get("taints") or [])
    if spec.get("unschedulable"):
        taints.append(_CORDON)
    for taint in taints:
        if kept_off(pod, taint):
            yield f"pod {pod.key} is bound to node {name} and does not tolerate {taint['key']}"
    if not selected(pod, node):
        yield f"pod {pod.key} is bound to node {name}, which its node selector or affinity forbids"


def ready(node: Mapping[str, Any]) -> bool:
    """By its condition."""
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def kept_off(pod: Pod, taint: Mapping[str, Any]) -> bool:
    """Whether a taint keeps the pod off its node."""
    tolerations = pod.spec.get("tolerations") or []
    return taint["effect"] in ("NoSchedule", "NoExecute") and not any(_tolerates(each, taint) for each in tolerations)


def takes(pod: Pod, node: Mapping[str, Any], *, though_away: bool = False) -> bool:
    """Whether nothing about the node itself keeps the pod off; cordons and lost nodes may be left out."""
    taints = list(node["spec"].get("taints") or [])
    if node["spec"].get("unschedulable") and not though_away:
        taints.append(_CORDON)
    return (ready(node) or though_away) and selected(pod, node) and not any(kept_off(pod, taint) for taint in taints)


def selected(pod: Pod, node: Mapping[str, Any]) -> bool:
    """Whether the pod's node selector and required node affinity allow a node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (pod.spec.get("nodeSelector") or {}).items()):
        return False
    wish = ((pod.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if wish is None:
        return True
    return any(
        all(requirement(each, labels) for each in term.get("matchExpressions") or [])
        for term in wish["nodeSelectorTerms"]
        if term.get("matchExpressions")
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    return toleration.get("key") == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def host_ports(pod: Pod) -> set[tuple[str, int]]:
    """Protocol and number of the host ports that a pod takes."""
    return {
        (port.get("protocol") or "TCP", port["hostPort"])
        for container in pod.spec["containers"]
        for port in container.get("ports") or []
        if port.get("hostPort")
    }


def _ports(turn: Turn) -> Iterator[str]:
    held: dict[str, list[Pod]] = {}
    for pod, node in turn.after():
        clash = next((other for other in held.get(node, ()) if host_ports(other) & host_ports(pod)), None)
        if clash is not None and not pod.occupies:
            yield f"pods {clash.key} and {pod.key} take the same host port of node {node}"
        held.setdefault(node, []).append(pod)


def _room(turn: Turn, name: str, node: Mapping[str, Any]) -> Iterator[str]:
    allocatable = amounts(node["status"]["allocatable"])
    used: Amounts = {}
    fresh: Amounts = {}
    there = [pod for pod, at in turn.after() if at == name]
    for pod in there:
        add(used, pod.requests)
        if not pod.occupies:
            add(fresh, pod.requests)
    for resource in fresh:
        if used[resource] > allocatable.get(resource, 0):
            yield f"node {name} has {allocatable.get(resource, 0)} of {resource} and would hold {float(used[resource])}"
    if len(there) > allocatable.get("pods", 0):
        yield f"node {name} takes {allocatable.get('pods', 0)} pods and would hold {len(there)}"
