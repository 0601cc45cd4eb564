"""Label selectors and node selector requirements, as Kubernetes describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def requirement(wish: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """One expression: In, NotIn, Exists, DoesNotExist."""
    key, values = wish["key"], wish.get("values") or []
    match wish["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(wish["operator"])


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """A label selector; none selects nothing, an empty one everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(requirement(each, labels) for each in selector.get("matchExpressions") or [])
