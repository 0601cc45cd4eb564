"""Which rules an aggregated ClusterRole has (pure)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unisono.api.rbac import ClusterRole, PolicyRule
from unisono.api.selecting import selects


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """Rules of all other roles that one of the role's selectors selects, each once, by name of their role."""
    selectors = (role.aggregation_rule.cluster_role_selectors if role.aggregation_rule else None) or ()
    found: dict[bytes, PolicyRule] = {}
    for other in sorted(roles, key=lambda one: one.metadata.name):
        if other.metadata.name == role.metadata.name:
            continue
        if any(selects(selector, other.metadata.labels) for selector in selectors):
            found.update((msgspec.json.encode(rule), rule) for rule in other.rules or ())
    return list(found.values())
