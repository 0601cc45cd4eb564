"""HyperNodes of a conformance case: as objects, or as sets of nodes that the recorder found without objects."""

from __future__ import annotations

from collections import Counter
from typing import Any

API_VERSION = "topology.volcano.sh/v1alpha1"


def hyper_nodes_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The case's HyperNode objects, one per name.

    Some of the recorded tests give the same name to several HyperNodes and mean different ones: the first of such a
    name gets the name that a member refers to and that nobody has. Where a case has only sets of nodes, sets within
    others become their members, a tier below.
    """
    objects = [value for value in case["objects"] if value["kind"] == "HyperNode"]
    return _distinct(objects) if objects else _from_sets(case.get("hyperNodeRealNodes") or {})


def lowest_tier(case: dict[str, Any]) -> dict[str, list[str]]:
    """Nodes of the HyperNodes of the lowest tier, by name."""
    objects = hyper_nodes_of(case)
    lowest = min(value["spec"]["tier"] for value in objects)
    return {value["metadata"]["name"]: _names(value) for value in objects if value["spec"]["tier"] == lowest}


def _names(value: dict[str, Any]) -> list[str]:
    return [member["selector"]["exactMatch"]["name"] for member in value["spec"].get("members", ())]


def _distinct(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter(value["metadata"]["name"] for value in objects)
    referred = [
        member["selector"]["exactMatch"]["name"]
        for value in objects
        for member in value["spec"].get("members", ())
        if member["type"] == "HyperNode"
    ]
    missing = [name for name in referred if name not in counts]
    distinct = []
    for value in objects:
        name = value["metadata"]["name"]
        if counts[name] > 1 and missing:
            counts[name] -= 1
            value = {**value, "metadata": {**value["metadata"], "name": missing.pop(0)}}
        distinct.append(value)
    return distinct


def _from_sets(sets: dict[str, list[str]]) -> list[dict[str, Any]]:
    below = {name: [other for other in sets if set(sets[other]) < set(nodes)] for name, nodes in sets.items()}
    tiers: dict[str, int] = {}
    for name in sorted(sets, key=lambda each: len(sets[each])):
        tiers[name] = 1 + max((tiers[other] for other in below[name]), default=0)
    made = []
    for name, nodes in sets.items():
        kind, members = ("HyperNode", below[name]) if below[name] else ("Node", nodes)
        selectors = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
        made.append(
            {
                "apiVersion": API_VERSION,
                "kind": "HyperNode",
                "metadata": {"name": name},
                "spec": {"tier": tiers[name], "members": selectors},
            }
        )
    return made
