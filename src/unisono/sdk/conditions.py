"""What an object's conditions complain of, for kinds of which nothing else is known (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Conditions that ought to be true, besides all whose name ends with Ready, and those that ought not. What others
# mean is not known here.
_OUGHT = frozenset(
    {"Available", "AbleToScale", "ScalingActive", "Active", "Synced", "Healthy", "Accepted", "Established"}
)
_OUGHT_NOT = frozenset({"Failed", "Degraded", "Stalled", "ReplicaFailure"})
_MOST = 3


def has_conditions(item: Mapping[str, Any]) -> bool:
    """Whether the object has conditions as Kubernetes writes them."""
    return bool(_conditions(item))


def complaints(item: Mapping[str, Any]) -> str:
    """``Ready is False: FailedGetScale: deployments.apps "x" not found``; empty where all is well."""
    found: dict[str, list[str]] = {}
    for condition in _conditions(item):
        name, status = str(condition.get("type")), str(condition.get("status"))
        ought = name in _OUGHT or name.endswith("Ready")
        if not (ought and status != "True") and not (name in _OUGHT_NOT and status == "True"):
            continue
        said = ": ".join(filter(None, (str(condition.get("reason") or ""), str(condition.get("message") or ""))))
        found.setdefault(said, []).append(f"{name} is {status}")
    texts = [", ".join(names) + (f": {said}" if said else "") for said, names in found.items()]
    return "; ".join(texts[:_MOST])


def _conditions(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = item.get("status")
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    if not isinstance(listed, list):
        return []
    return [each for each in listed if isinstance(each, Mapping) and "type" in each and "status" in each]
