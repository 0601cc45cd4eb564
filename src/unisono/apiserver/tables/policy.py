"""Tables of resource quotas, disruption budgets and network policies."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row
from unisono.apiserver.tables.values import NONE, age, get, join, mapping, text

_UNLIMITED = "N/A"


def _quota(obj: Row, now: float) -> list[Any]:
    hard, used = mapping(obj, "spec", "hard"), mapping(obj, "status", "used")
    parts = {name: f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)}
    limits = [part for name, part in parts.items() if name.startswith("limits")]
    requests = [part for name, part in parts.items() if not name.startswith("limits")]
    created = age(get(obj, "metadata", "creationTimestamp"), now)
    return [text(obj, "metadata", "name"), ", ".join(requests), ", ".join(limits), created]


def _budget(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    return [
        text(obj, "metadata", "name"),
        text(spec, "minAvailable", default=_UNLIMITED),
        text(spec, "maxUnavailable", default=_UNLIMITED),
        get(obj, "status", "disruptionsAllowed") or 0,
        age(get(obj, "metadata", "creationTimestamp"), now),
    ]


def _network_policy(obj: Row, now: float) -> list[Any]:
    labels = mapping(obj, "spec", "podSelector", "matchLabels")
    selector = join([f"{key}={labels[key]}" for key in sorted(labels)], NONE)
    return [text(obj, "metadata", "name"), selector, age(get(obj, "metadata", "creationTimestamp"), now)]


QUOTAS = Layout((NAME, Column("Request"), Column("Limit"), AGE), _quota)
BUDGETS = Layout(
    (NAME, Column("Min Available"), Column("Max Unavailable"), Column("Allowed Disruptions", "integer"), AGE), _budget
)
NETWORK_POLICIES = Layout((NAME, Column("Pod-Selector"), AGE), _network_policy)
