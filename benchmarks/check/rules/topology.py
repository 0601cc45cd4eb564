"""Hard network topology: all pods of a gang, or of a sub-group, are below one HyperNode of the tier allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.check.facts import Facts, Pod, Turn
from benchmarks.check.rules.gangs import subgroup
from benchmarks.check.rules.selectors import selects

Domains = list[tuple[int, frozenset[str]]]


def domains(facts: Facts) -> Domains:
    """Tier and nodes of every HyperNode."""
    return [(node["spec"]["tier"], frozenset(_below(facts, name))) for name, node in facts.all("HyperNode").items()]


def _below(facts: Facts, name: str) -> set[str]:
    found: set[str] = set()
    for member in (facts.all("HyperNode").get(name) or {"spec": {}})["spec"].get("members") or []:
        selector = member["selector"]
        if "exactMatch" in selector:
            exact = selector["exactMatch"]["name"]
            found |= _below(facts, exact) if member["type"] == "HyperNode" else {exact}
        elif "labelMatch" in selector:
            nodes = facts.all("Node").items()
            found |= {
                name for name, node in nodes if selects(selector["labelMatch"], node["metadata"].get("labels") or {})
            }
        else:
            pattern = re.compile(selector["regexMatch"]["pattern"])
            found |= {node for node in facts.all("Node") if pattern.search(node)}
    return found & set(facts.all("Node"))


def rules(turn: Turn) -> Iterator[str]:
    """Bounds of every PodGroup that gets places."""
    if not turn.has("network-topology-aware") or not turn.facts.all("HyperNode"):
        return
    tree = domains(turn.facts)
    where = dict(turn.binds)
    for group in {pod.group for pod, _ in turn.bound()}:
        found = turn.facts.all("PodGroup").get(group)
        if found is None:
            continue
        held = [pod for pod in turn.facts.members(group) if pod.key in where or (pod.counts and pod.occupies)]
        yield from _bound(f"PodGroup {group}", found["spec"].get("networkTopology"), tree, held, where)
        for at, policy in enumerate(found["spec"].get("subGroupPolicy") or []):
            for name in {subgroup(found, pod) for pod in held if pod.key in where}:
                if name is not None and name[0] == at:
                    own = [pod for pod in held if subgroup(found, pod) == name]
                    yield from _bound(f"sub-group {name} of {group}", policy.get("networkTopology"), tree, own, where)


def _bound(
    what: str, wish: Mapping[str, Any] | None, tree: Domains, held: list[Pod], where: Mapping[str, str]
) -> Iterator[str]:
    if wish is None or (wish.get("mode") or "hard") != "hard" or wish.get("highestTierAllowed") is None:
        return
    limit = wish["highestTierAllowed"]
    if limit > max(tier for tier, _ in tree):
        return
    nodes = {where.get(pod.key) or pod.node for pod in held}
    if not any(tier <= limit and nodes <= members for tier, members in tree):
        yield f"{what} may not leave tier {limit} and would run on {', '.join(sorted(nodes))}"
