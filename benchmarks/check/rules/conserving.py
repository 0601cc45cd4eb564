"""Which waiting gangs would fit into what a cycle leaves free, and within all limits; where in doubt, a gang does not.

A gang is judged where a plain check is a proof: its pods are alike, so that any order of placing them finds as many
places as there are, or one node takes all of them. What is not judged: sub-groups, minimums of roles, affinity to pods,
spread, claims for one pod, and anything beside a plug-in that keeps room free on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from benchmarks.check.facts import LICENSES, Amounts, Pod, Turn, add, amounts
from benchmarks.check.rules import budgets, licenses
from benchmarks.check.rules.affinity import repel, terms
from benchmarks.check.rules.nodes import host_ports, takes
from benchmarks.check.rules.shares import Limits
from benchmarks.check.rules.topology import domains
from benchmarks.check.rules.volumes import claims

_KEEPING = ("reservation", "eviction-guard", "tdm", "usage", "nodegroup", "numa-aware")
_SHARED = ("volcano.sh/", "aliyun.com/", "tencent.com/")
_OVERCOMMIT = Fraction(6, 5)


@dataclass(slots=True)
class _Left:
    """What a cycle leaves: pods by place, those that are promised one included, and free amounts by node.

    ``tied`` are those of the pods that may keep others away.
    """

    places: list[tuple[Pod, str]]
    tied: list[tuple[Pod, str]]
    free: dict[str, Amounts]
    labels: dict[str, Mapping[str, str]]

    @classmethod
    def by(cls, turn: Turn) -> _Left:
        places = turn.after()
        known = {pod.key for pod, _ in places}
        coming = {**turn.nominated(), **turn.promised}
        places += [(turn.facts.pods[key], node) for key, node in coming.items() if key not in known]
        nodes = turn.facts.all("Node")
        free = {name: amounts(node["status"]["allocatable"]) for name, node in nodes.items()}
        for pod, node in places:
            if node in free:
                _take(free[node], pod)
        labels = {name: node["metadata"].get("labels") or {} for name, node in nodes.items()}
        places = [(pod, node) for pod, node in places if node in nodes]
        return cls(places, [place for place in places if _is_tied(place[0])], free, labels)


def _is_tied(pod: Pod) -> bool:
    return bool(host_ports(pod) or terms(pod, "podAntiAffinity"))


def _take(room: Amounts, pod: Pod) -> None:
    add(room, {name: -value for name, value in pod.requests.items()})
    add(room, {"pods": Fraction(-1)})


def _has(room: Amounts, pod: Pod) -> bool:
    return room.get("pods", Fraction(0)) >= 1 and all(room.get(name, 0) >= need for name, need in pod.requests.items())


def fitting(turn: Turn) -> list[str]:
    """PodGroups that wait after a cycle although they fit into what it leaves."""
    if any(turn.has(name) for name in _KEEPING) or not {"allocate", "backfill"} <= set(turn.actions):
        return []
    going = turn.evictions or any(pod.leaving for pod in turn.facts.pods.values())
    if going and any(_keeps(turn, turn.facts.pods[key].group) for key in turn.promised):
        return []
    left = _Left.by(turn)
    limits = Limits(turn, left.places)
    coming = {turn.facts.pods[key].group for key in {**turn.nominated(), **turn.promised}}
    fresh = {key for key, _ in turn.binds}
    found = []
    for key, group in turn.facts.all("PodGroup").items():
        pods = _next(turn, key, group, fresh)
        if not pods or key in coming or not all(_judged(pod) for pod in pods):
            continue
        if budgets.used_up(turn, key, nearly=True):
            continue
        if licenses.asks(turn, key) and not _licensed(turn, left, key, pods):
            continue
        if not limits.allow(key, pods) or not _admitted(turn, limits, key):
            continue
        if any(_fits(turn, left, pods, nodes) for nodes in _regions(turn, left, key, group)):
            found.append(key)
    return found


def _licensed(turn: Turn, left: _Left, key: str, pods: list[Pod]) -> bool:
    """Whether there are licences for these pods beside what others take; unknown where queues share them."""
    if turn.has("proportion") or turn.has("capacity") or any(pod.leaving for pod in turn.facts.pods.values()):
        return False
    queues = turn.facts.lineage(turn.facts.queue_of(key))
    specs = [found["spec"] for name in queues if (found := turn.facts.all("Queue").get(name)) is not None]
    if any(name.startswith(LICENSES) for spec in specs for name in spec.get("capability") or {}):
        return False
    total = licenses.taken(turn, [*(pod for pod, _ in left.places), *pods])
    return all(value <= licenses.there(turn, name) for name, value in total.items())


def _keeps(turn: Turn, group: str) -> bool:
    """Whether a gang that waits for others to leave keeps more places until then than its promises tell."""
    found = turn.facts.all("PodGroup").get(group) or {"spec": {}}
    have = sum(1 for pod in turn.facts.members(group) if pod.counts or pod.key in turn.promised)
    return have < (found["spec"].get("minMember") or 0)


def _next(turn: Turn, key: str, group: Mapping[str, Any], fresh: set[str]) -> list[Pod]:
    """Pods that start together: what the gang lacks of its minimum, or one more."""
    spec = group["spec"]
    if spec.get("subGroupPolicy") or spec.get("minTaskMember"):
        return []
    members = turn.facts.members(key)
    if any(pod.key in {name for name, *_ in turn.evictions} for pod in members):
        return []
    waiting = [pod for pod in members if pod.waits and pod.ours and pod.key not in fresh]
    have = sum(1 for pod in members if pod.counts or pod.key in fresh)
    lacks = max((spec.get("minMember") or 0) - have, 1)
    if len(waiting) < lacks:
        return []
    if len({_shape(pod) for pod in waiting}) == 1:
        return waiting[:lacks]
    return waiting if lacks > 1 else []


def _shape(pod: Pod) -> str:
    spec = {key: value for key, value in pod.spec.items() if key not in ("priority", "priorityClassName")}
    return json.dumps([spec, pod.labels], sort_keys=True)


def _judged(pod: Pod) -> bool:
    if any(name.startswith(_SHARED) for name in pod.requests):
        return False
    return not (terms(pod, "podAffinity") or pod.spec.get("topologySpreadConstraints") or claims(pod))


def _regions(turn: Turn, left: _Left, key: str, group: Mapping[str, Any]) -> Iterator[Iterable[str]]:
    """Sets of nodes within which the gang may be."""
    wish = group["spec"].get("networkTopology")
    hard = wish is not None and (wish.get("mode") or "hard") == "hard" and wish.get("highestTierAllowed") is not None
    if not turn.has("network-topology-aware") or not hard or not turn.facts.all("HyperNode"):
        yield left.free
        return
    tree = domains(turn.facts)
    held = {node for pod, node in left.places if pod.group == key}
    if wish["highestTierAllowed"] > max(tier for tier, _ in tree):
        yield left.free
    yield from (nodes for tier, nodes in tree if tier <= wish["highestTierAllowed"] and held <= nodes)


def _fits(turn: Turn, left: _Left, pods: list[Pod], region: Iterable[str]) -> bool:
    """Whether all pods get places whatever the order, with the rules of those that are there."""
    nodes = turn.facts.all("Node")
    shapes = list({_shape(pod): pod for pod in pods}.values())
    allowed = {
        name
        for name in region
        if name in nodes and all(takes(pod, nodes[name]) and not _kept_away(left, pod, name) for pod in shapes)
    }
    if len(shapes) > 1:
        alone = any(host_ports(pod) or terms(pod, "podAntiAffinity") for pod in pods)
        return not alone and any(_takes_all(left.free[name], pods) for name in allowed)
    room = {name: dict(left.free[name]) for name in allowed}
    placed: list[tuple[Pod, str]] = []
    for pod in pods:
        for name in sorted(allowed):
            if _has(room[name], pod) and not any(_clash(left, pod, name, *other) for other in placed):
                _take(room[name], pod)
                placed.append((pod, name))
                break
        else:
            return False
    return True


def _takes_all(room: Amounts, pods: list[Pod]) -> bool:
    rest = dict(room)
    for pod in pods:
        if not _has(rest, pod):
            return False
        _take(rest, pod)
    return True


def _kept_away(left: _Left, pod: Pod, name: str) -> bool:
    others = left.places if _is_tied(pod) else left.tied
    return any(_clash(left, pod, name, other, where) for other, where in others if other.key != pod.key)


def _clash(left: _Left, pod: Pod, name: str, other: Pod, where: str) -> bool:
    if where == name and host_ports(pod) & host_ports(other):
        return True
    return repel(pod, left.labels[name], other, left.labels[where])


# ---- the gate


def _admitted(turn: Turn, limits: Limits, key: str) -> bool:
    """It is admitted, or nothing that could ever be used is promised to so many others that it must wait."""
    group = turn.facts.all("PodGroup")[key]
    phase = turn.phases.get(key) or group["status"].get("phase") or "Pending"
    asked = amounts(group["spec"].get("minResources"))
    if phase != "Pending" or "enqueue" not in turn.actions or not asked:
        return True
    if turn.has("resourcequota"):
        return False
    promised = [other for other in turn.facts.all("PodGroup") if other != key and _promised(turn, other)]
    total = limits.total()
    for name, value in asked.items():
        wanted = value + sum(amounts(_spec(turn, other).get("minResources")).get(name, 0) for other in promised)
        if turn.has("overcommit") and limits.used(name) + wanted > total.get(name, 0) * _OVERCOMMIT:
            return False
    mine = [other for other in promised if turn.facts.queue_of(other) in limits.kin(key)]
    more: Amounts = dict(asked)
    for other in mine:
        add(more, amounts(_spec(turn, other).get("minResources")))
    return limits.hold(key, more) and limits.of_user(key, more)


def _spec(turn: Turn, key: str) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = turn.facts.all("PodGroup")[key]["spec"]
    return spec


def _promised(turn: Turn, key: str) -> bool:
    """It was admitted, does not run whole, and could be placed if the cluster were empty."""
    group = turn.facts.all("PodGroup")[key]
    phase = turn.phases.get(key) or group["status"].get("phase") or "Pending"
    return phase != "Pending" and not never(turn, key)


def never(turn: Turn, key: str) -> bool:
    """Proof that a gang has no place for its minimum, even if the cluster were empty and no node cordoned."""
    nodes = turn.facts.all("Node")
    members = turn.facts.members(key)
    minimum = turn.facts.all("PodGroup")[key]["spec"].get("minMember") or 0
    have = sum(1 for pod in members if pod.counts)
    known = turn.facts.all("PersistentVolumeClaim")
    able = 0
    for pod in members:
        if not (pod.waits or pod.gated) or not pod.ours or any(claim not in known for claim in claims(pod)):
            continue
        able += any(
            takes(pod, node, though_away=True) and _has(amounts(node["status"]["allocatable"]), pod)
            for node in nodes.values()
        )
    return have < minimum and have + able < minimum
