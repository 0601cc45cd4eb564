"""Which objects a quota counts (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.base import Object
from unisono.api.core import Pod, PodAffinityTerm, ResourceQuota, ScopedResourceSelectorRequirement
from unisono.api.qos import qos_class

CROSS_NAMESPACE = "CrossNamespacePodAffinity"
"""Scope of pods whose affinity terms name other namespaces."""


def counts(quota: ResourceQuota, obj: Object | None) -> bool:
    """Whether the quota's scopes, all of them, select the object; only pods have scopes."""
    return all(_matches(scope, obj) for scope in _scopes(quota))


def covers_class(quota: ResourceQuota, name: str) -> bool:
    """Whether the quota is about pods of that priority class, whatever else it selects."""
    about = [scope for scope in _scopes(quota) if scope.scope_name == "PriorityClass"]
    return bool(about) and all(_priority(scope, name) for scope in about)


def has_scope(quota: ResourceQuota, name: str) -> bool:
    """Whether the quota has the scope, whatever else it selects."""
    return any(scope.scope_name == name for scope in _scopes(quota))


def _scopes(quota: ResourceQuota) -> Iterator[ScopedResourceSelectorRequirement]:
    for name in quota.spec.scopes or ():
        yield ScopedResourceSelectorRequirement(scope_name=name, operator="Exists")
    if quota.spec.scope_selector is not None:
        yield from quota.spec.scope_selector.match_expressions or ()


def _matches(scope: ScopedResourceSelectorRequirement, obj: Object | None) -> bool:
    if not isinstance(obj, Pod):
        return False
    match scope.scope_name:
        case "Terminating":
            return _terminating(obj)
        case "NotTerminating":
            return not _terminating(obj)
        case "BestEffort":
            return qos_class(obj.spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(obj.spec) != "BestEffort"
        case "PriorityClass":
            return _priority(scope, obj.spec.priority_class_name or "")
        case "CrossNamespacePodAffinity":  # CROSS_NAMESPACE
            return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(obj))
    return False


def _terminating(pod: Pod) -> bool:
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def _priority(scope: ScopedResourceSelectorRequirement, name: str) -> bool:
    match scope.operator:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return bool(name) and name in (scope.values or ())
        case "NotIn":
            return name not in (scope.values or ())
    return False


def _affinity_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is None:
            continue
        yield from side.required_during_scheduling_ignored_during_execution or ()
        for weighted in side.preferred_during_scheduling_ignored_during_execution or ():
            if weighted.pod_affinity_term is not None:
                yield weighted.pod_affinity_term
