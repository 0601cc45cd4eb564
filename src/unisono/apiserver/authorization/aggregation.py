"""Which rules an aggregated ClusterRole has (pure)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unisono.api.meta import LabelSelector
from unisono.api.rbac import ClusterRole, PolicyRule


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """Rules of all other roles that one of the role's selectors selects, each once, by name of their role."""
    selectors = (role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else None) or ()
    found: dict[bytes, PolicyRule] = {}
    for other in sorted(roles, key=lambda one: one.metadata.name):
        if other.metadata.name == role.metadata.name:
            continue
        if any(selects(selector, other.metadata.labels or {}) for selector in selectors):
            found.update((msgspec.json.encode(rule), rule) for rule in other.rules or ())
    return list(found.values())


def selects(selector: LabelSelector, labels: dict[str, str]) -> bool:
    """Whether a label selector selects; an empty one selects everything."""
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    for one in selector.match_expressions or ():
        present = one.key in labels
        among = present and labels[one.key] in (one.values or ())
        matches = {"In": among, "NotIn": not among, "Exists": present, "DoesNotExist": not present}
        if not matches.get(one.operator, False):
            return False
    return True
