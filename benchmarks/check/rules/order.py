"""Of two gangs that are alike in all but priority, the more important one is served first."""

from __future__ import annotations

import json
from collections.abc import Iterator

from benchmarks.check.facts import Turn


def rules(turn: Turn) -> Iterator[str]:
    """Among gangs of one queue that have nothing yet."""
    if not turn.has("priority"):
        return
    bound = {pod.group for pod, _ in turn.bound()}
    alike: dict[str, list[str]] = {}
    for group in turn.facts.all("PodGroup"):
        shape = _shape(turn, group)
        if shape:
            alike.setdefault(shape, []).append(group)
    for groups in alike.values():
        for high in groups:
            for low in groups:
                if turn.facts.rank(high) > turn.facts.rank(low) and low in bound and high not in bound:
                    yield f"PodGroup {low} is served before {high}, which has a higher priority and asks for the same"


def _shape(turn: Turn, group: str) -> str:
    """What two gangs have in common that must be served in order of priority; empty where others may overtake."""
    pods = turn.facts.members(group)
    found = turn.facts.all("PodGroup")[group]
    if not pods or not all(pod.waits and pod.ours for pod in pods):
        return ""
    if any(pod.raw.get("status", {}).get("nominatedNodeName") for pod in turn.facts.pods.values()):
        return ""
    if (found["status"].get("phase") or "Pending") == "Pending" and "enqueue" in turn.actions:
        return ""
    spec = {key: value for key, value in found["spec"].items() if key != "priorityClassName"}
    # Labels count too: pods that are there already may keep those of one label away and not those of another.
    parts = [
        [
            {key: value for key, value in pod.spec.items() if key not in ("priority", "priorityClassName")},
            pod.role,
            pod.raw["metadata"].get("labels"),
        ]
        for pod in pods
    ]
    if any(part[0].get("affinity") or part[0].get("volumes") for part in parts):  # type: ignore[union-attr]
        return ""
    return json.dumps(
        [pods[0].namespace, spec, sorted(json.dumps(part, sort_keys=True) for part in parts)], sort_keys=True
    )
