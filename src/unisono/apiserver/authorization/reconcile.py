"""Brings the default roles and bindings of a store up to date: adds what is missing, takes nothing away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from unisono.api.rbac import ClusterRole, ClusterRoleBinding
from unisono.apiserver.admission.request import View
from unisono.apiserver.authorization.defaults import AUTO_UPDATE, default_bindings, default_roles
from unisono.apiserver.authorization.rules import compact, uncovered


def missing_or_outdated(view: View) -> Iterator[tuple[Kind[Any], Object]]:
    """Default roles and bindings as they must be stored, where they are not yet; the present ones keep their metadata.

    Objects whose ``autoupdate`` annotation is not "true" are left alone.
    """
    for role in default_roles():
        present = view.find(CLUSTER_ROLES, role.metadata.name)
        if present is None:
            yield CLUSTER_ROLES, role
        elif _kept_up(present) and _extend_role(present, role):
            yield CLUSTER_ROLES, present
    for binding in default_bindings():
        bound = view.find(CLUSTER_ROLE_BINDINGS, binding.metadata.name)
        if bound is None:
            yield CLUSTER_ROLE_BINDINGS, binding
        elif _kept_up(bound) and _extend_binding(bound, binding):
            yield CLUSTER_ROLE_BINDINGS, bound


def _kept_up(obj: Object) -> bool:
    return (obj.metadata.annotations or {}).get(AUTO_UPDATE) == "true"


def _extend_role(present: ClusterRole, wanted: ClusterRole) -> bool:
    changed = False
    labels = {**(present.metadata.labels or {}), **(wanted.metadata.labels or {})}
    if labels != present.metadata.labels:
        present.metadata.labels, changed = labels, True
    if wanted.aggregation_rule is not None:
        if present.aggregation_rule != wanted.aggregation_rule:
            present.aggregation_rule, changed = wanted.aggregation_rule, True
        return changed
    missing = compact(uncovered(present.rules or [], wanted.rules or []))
    if missing:
        present.rules, changed = [*(present.rules or ()), *missing], True
    return changed


def _extend_binding(present: ClusterRoleBinding, wanted: ClusterRoleBinding) -> bool:
    missing = [one for one in wanted.subjects or () if one not in (present.subjects or ())]
    if missing:
        present.subjects = [*(present.subjects or ()), *missing]
    return bool(missing)
