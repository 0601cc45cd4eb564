"""Inter-pod affinity and topology spread, pod by pod and node by node: slow, and close to the description."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unisono.api.base import LabelSelector
from unisono.api.core import Node, Pod, PodAffinityTerm, TopologySpreadConstraint

NEAR = "node(s) didn't match pod affinity rules"
AWAY = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{UNEVEN} (missing required label)"
HOSTNAME = "kubernetes.io/hostname"


def labels(thing: Node | Pod) -> dict[str, str]:
    return thing.metadata.labels or {}


def selected(selector: LabelSelector | None, given: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in (selector.match_labels or {}).items():
        if given.get(key) != value:
            return False
    for wanted in selector.match_expressions or []:
        has, value = wanted.key in given, given.get(wanted.key)
        if wanted.operator == "In" and not (has and value in (wanted.values or [])):
            return False
        if wanted.operator == "NotIn" and has and value in (wanted.values or []):
            return False
        if wanted.operator == "Exists" and not has:
            return False
        if wanted.operator == "DoesNotExist" and has:
            return False
    return True


@dataclass
class World:
    """Nodes, pods that stand on them, and labels of namespaces."""

    nodes: list[Node]
    pods: list[tuple[Pod, str]] = field(default_factory=list)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.metadata.name == name), None)

    # ---- inter-pod affinity

    def term_matches(self, owner: Pod, term: PodAffinityTerm, other: Pod) -> bool:
        namespace = other.metadata.namespace or ""
        if not term.namespaces and term.namespace_selector is None:
            inside = namespace == owner.metadata.namespace
        else:
            of_namespace = {"kubernetes.io/metadata.name": namespace, **self.namespaces.get(namespace, {})}
            inside = namespace in (term.namespaces or []) or selected(term.namespace_selector, of_namespace)
        if not inside or not selected(term.label_selector, labels(other)):
            return False
        own, theirs = labels(owner), labels(other)
        same = all(theirs.get(key) == own[key] for key in term.match_label_keys or [] if key in own)
        return same and not any(theirs.get(key) == own[key] for key in term.mismatch_label_keys or [] if key in own)

    def affinity_verdict(self, pod: Pod, node: Node) -> str:
        """Reason for which ``node`` is refused, or empty."""
        near, away = required(pod, near=True), required(pod, near=False)
        existing: set[tuple[str, str]] = set()
        company: Counter[tuple[str, str]] = Counter()
        enemies: Counter[tuple[str, str]] = Counter()
        for other, where in self.pods:
            place = self.node(where)
            if place is None:
                continue
            for term in required(other, near=False):
                if term.topology_key in labels(place) and self.term_matches(other, term, pod):
                    existing.add((term.topology_key, labels(place)[term.topology_key]))
            if near and all(self.term_matches(pod, term, other) for term in near):
                for term in near:
                    if term.topology_key in labels(place):
                        company[term.topology_key, labels(place)[term.topology_key]] += 1
            for term in away:
                if term.topology_key in labels(place) and self.term_matches(pod, term, other):
                    enemies[term.topology_key, labels(place)[term.topology_key]] += 1
        if near:
            found = True
            for term in near:
                if term.topology_key not in labels(node):
                    return NEAR
                found = found and company[term.topology_key, labels(node)[term.topology_key]] > 0
            first = not any(company.values()) and all(self.term_matches(pod, term, pod) for term in near)
            if not found and not first:
                return NEAR
        for term in away:
            if term.topology_key in labels(node) and enemies[term.topology_key, labels(node)[term.topology_key]] > 0:
                return AWAY
        return UNWANTED if any(labels(node).get(key) == value for key, value in existing) else ""

    def affinity_points(self, pod: Pod, candidates: Sequence[Node]) -> dict[str, int]:
        table: Counter[tuple[str, str]] = Counter()
        for other, where in self.pods:
            place = self.node(where)
            if place is None:
                continue
            for owner, target in ((pod, other), (other, pod)):
                for term, weight in preferred(owner):
                    if term.topology_key in labels(place) and self.term_matches(owner, term, target):
                        table[term.topology_key, labels(place)[term.topology_key]] += weight
        raw = {n.metadata.name: sum(table[pair] for pair in labels(n).items()) for n in candidates}
        if not raw or min(raw.values()) == max(raw.values()):
            return dict.fromkeys(raw, 0)
        least, most = min(raw.values()), max(raw.values())
        return {name: int(100.0 * (float(value - least) / float(most - least))) for name, value in raw.items()}

    # ---- topology spread

    def counts(self, pod: Pod, spread: TopologySpreadConstraint, other: Pod) -> bool:
        selector = spread.label_selector
        keyed = any(key in labels(pod) for key in spread.match_label_keys or [])
        if selector is None or not (selector.match_labels or selector.match_expressions or keyed):
            return False
        return not other.metadata.deletion_timestamp and self.spread_matches(pod, spread, other)

    def spread_matches(self, pod: Pod, spread: TopologySpreadConstraint, other: Pod) -> bool:
        own, theirs = labels(pod), labels(other)
        same = all(theirs.get(key) == own[key] for key in spread.match_label_keys or [] if key in own)
        return other.metadata.namespace == pod.metadata.namespace and selected(spread.label_selector, theirs) and same

    def included(self, pod: Pod, spread: TopologySpreadConstraint, node: Node) -> bool:
        wanted = pod.spec.node_selector or {}
        if spread.node_affinity_policy != "Ignore" and any(labels(node).get(k) != v for k, v in wanted.items()):
            return False
        repelling = [taint for taint in node.spec.taints or [] if taint.effect in ("NoSchedule", "NoExecute")]
        return spread.node_taints_policy != "Honor" or not repelling  # the pods of these tests tolerate nothing

    def domain_counts(self, pod: Pod, spread: TopologySpreadConstraint, keys: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in self.nodes:
            if all(key in labels(node) for key in keys) and self.included(pod, spread, node):
                number = sum(
                    self.counts(pod, spread, other) for other, where in self.pods if where == node.metadata.name
                )
                value = labels(node)[spread.topology_key]
                found[value] = found.get(value, 0) + number
        return found

    def spread_verdict(self, pod: Pod, node: Node) -> str:
        hard = [s for s in pod.spec.topology_spread_constraints or [] if s.when_unsatisfiable == "DoNotSchedule"]
        for spread in hard:
            value = labels(node).get(spread.topology_key)
            if value is None:
                return UNLABELLED
            found = self.domain_counts(pod, spread, [s.topology_key for s in hard])
            least = min(found.values(), default=0) if len(found) >= (spread.min_domains or 1) else 0
            own = int(self.spread_matches(pod, spread, pod))
            if found.get(value, 0) + own - least > (spread.max_skew or 1):
                return UNEVEN
        return ""

    def spread_points(self, pod: Pod, candidates: Sequence[Node]) -> dict[str, int]:
        soft = [s for s in pod.spec.topology_spread_constraints or [] if s.when_unsatisfiable == "ScheduleAnyway"]
        keys = [s.topology_key for s in soft]
        counted = [node for node in candidates if all(key in labels(node) for key in keys)]
        points = dict.fromkeys((node.metadata.name for node in candidates), 0)
        if not soft or not counted:
            return points
        raw: dict[str, float] = dict.fromkeys((node.metadata.name for node in counted), 0.0)
        for spread in soft:
            hosts = spread.topology_key == HOSTNAME
            size = len(counted) if hosts else len({labels(node)[spread.topology_key] for node in counted})
            found = self.domain_counts(pod, spread, keys)
            for node in counted:
                name = node.metadata.name
                here = sum(self.counts(pod, spread, other) for other, where in self.pods if where == name)
                number = here if hosts else found.get(labels(node)[spread.topology_key], 0)
                raw[name] += number * math.log(size + 2) + (spread.max_skew or 1) - 1
        rounded = {name: math.floor(value + 0.5) for name, value in raw.items()}
        least, most = min(rounded.values()), max(rounded.values())
        for name, value in rounded.items():
            points[name] = 100 * (most + least - value) // most if most else 100
        return points


def required(pod: Pod, *, near: bool) -> list[PodAffinityTerm]:
    affinity = pod.spec.affinity
    side = (affinity.pod_affinity if near else affinity.pod_anti_affinity) if affinity else None
    return list(side.required_during_scheduling_ignored_during_execution or []) if side else []


def preferred(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    found: list[tuple[PodAffinityTerm, int]] = []
    affinity = pod.spec.affinity
    for side, sign in ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1)) if affinity else ():
        for entry in (side.preferred_during_scheduling_ignored_during_execution or []) if side else []:
            assert entry.pod_affinity_term is not None
            found.append((entry.pod_affinity_term, sign * (entry.weight or 0)))
    return found
