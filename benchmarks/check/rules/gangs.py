"""No part of a gang starts: minMember, minimums of roles and of sub-groups, pods without requests included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.check.facts import Pod, Turn
from benchmarks.check.rules.selectors import selects


def subgroup(group: Mapping[str, Any], pod: Pod) -> tuple[int, tuple[str, ...]] | None:
    """Policy and label values that name the sub-group of a pod."""
    for at, policy in enumerate(group["spec"].get("subGroupPolicy") or []):
        keys = policy.get("matchLabelKeys") or []
        selector = policy.get("labelSelector")
        values = tuple(pod.labels.get(key, "") for key in keys)
        if keys and all(values) and (selector is None or selects(selector, pod.labels)):
            return at, values
    return None


def rules(turn: Turn) -> Iterator[str]:
    """All of them."""
    fresh = {key for key, _ in turn.binds}
    for group in {pod.group for pod, _ in turn.bound()}:
        found = turn.facts.all("PodGroup").get(group)
        if found is None:
            yield f"pods of PodGroup {group}, which does not exist, are bound"
            continue
        if turn.has("gang"):
            held = [pod for pod in turn.facts.members(group) if pod.counts or pod.key in fresh]
            yield from _gang(group, found, held, fresh)


def _gang(group: str, found: Mapping[str, Any], held: list[Pod], fresh: set[str]) -> Iterator[str]:
    spec = found["spec"]
    minimum = spec.get("minMember") or 0
    if len(held) < minimum:
        yield f"PodGroup {group} would run with {len(held)} of {minimum} pods"
    roles: Mapping[str, int] = spec.get("minTaskMember") or {}
    if minimum >= sum(roles.values()):
        have = Counter(pod.role for pod in held)
        for role, need in roles.items():
            if have[role] < need:
                yield f"PodGroup {group} would run with {have[role]} of {need} pods of role {role}"
    sizes = Counter(subgroup(found, pod) for pod in held)
    touched = {subgroup(found, pod) for pod in held if pod.key in fresh}
    for at, policy in enumerate(spec.get("subGroupPolicy") or []):
        size = policy.get("subGroupSize") or 1
        whole = sum(1 for name, number in sizes.items() if name is not None and name[0] == at and number >= size)
        if whole < (policy.get("minSubGroups") or 0):
            yield f"PodGroup {group} would run with {whole} of {policy['minSubGroups']} sub-groups"
        for name in touched:
            if name is not None and name[0] == at and sizes[name] < size:
                yield f"sub-group {name} of PodGroup {group} would run with {sizes[name]} of {size} pods"
