"""What ResourceQuotas count, and of which objects (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from unisono.api import core
from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.pod_states import has_ended, qos_class
from unisono.api.resources import pod_limits, pod_requests, to_units
from unisono.api.volumes import class_of_claim

CROSS_NAMESPACE = "CrossNamespacePodAffinity"
"""Scope of pods whose affinity terms name other namespaces."""


def counts(quota: core.ResourceQuota, obj: Object | None) -> bool:
    """Whether the quota's scopes, all of them, select the object; only pods have scopes."""
    return all(_matches(scope, obj) for scope in _scopes(quota))


def covers_class(quota: core.ResourceQuota, name: str) -> bool:
    """Whether the quota is about pods of that priority class, whatever else it selects."""
    about = [scope for scope in _scopes(quota) if scope.scope_name == "PriorityClass"]
    return bool(about) and all(_priority(scope, name) for scope in about)


def has_scope(quota: core.ResourceQuota, name: str) -> bool:
    """Whether the quota has the scope, whatever else it selects."""
    return any(scope.scope_name == name for scope in _scopes(quota))


def _scopes(quota: core.ResourceQuota) -> Iterator[core.ScopedResourceSelectorRequirement]:
    for name in quota.spec.scopes or ():
        yield core.ScopedResourceSelectorRequirement(scope_name=name, operator="Exists")
    if quota.spec.scope_selector is not None:
        yield from quota.spec.scope_selector.match_expressions or ()


def _matches(scope: core.ScopedResourceSelectorRequirement, obj: Object | None) -> bool:
    if not isinstance(obj, core.Pod):
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


def _terminating(pod: core.Pod) -> bool:
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def _priority(scope: core.ScopedResourceSelectorRequirement, name: str) -> bool:
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


def _affinity_terms(pod: core.Pod) -> Iterator[core.PodAffinityTerm]:
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


# What one object uses, in the names of resource quotas (pure). Amounts are in the units of ``api.resources``.

Usage = dict[str, int]
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
# Kinds that quotas also count by their plain name.
_PLAIN = frozenset(("configmaps", "secrets", "resourcequotas", "replicationcontrollers"))
# Containers must say how much of these they need when a quota limits them.
_DEMANDED = frozenset(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory"))


def usage_of(kind: Kind[Any], obj: Object | None) -> Usage:
    """What an object uses; ``obj`` may be None for kinds of which only the number counts."""
    used = {f"count/{kind.resource}": to_units("count", 1)}
    if isinstance(obj, core.Pod):
        used |= _pod(obj)
    elif isinstance(obj, core.Service):
        used |= _service(obj)
    elif isinstance(obj, core.PersistentVolumeClaim):
        used |= _claim(obj)
    elif kind.resource in _PLAIN:
        used[kind.resource] = to_units(kind.resource, 1)
    return used


def resources_behind(names: Iterable[str]) -> set[str]:
    """Resources (``pods``, ``jobs.batch.volcano.sh``) whose objects use any of the quota names."""
    resources = set()
    for name in names:
        if name.startswith("count/"):
            resources.add(name.removeprefix("count/"))
        elif name in _PLAIN:
            resources.add(name)
        elif name.startswith("services"):
            resources.add("services")
        elif name in ("persistentvolumeclaims", "requests.storage") or _STORAGE_CLASS in name:
            resources.add("persistentvolumeclaims")
        else:
            resources.add("pods")
    return resources


def unspecified(pod: core.Pod, names: Iterable[str]) -> str:
    """Which of the limited resources which containers do not specify, in Kubernetes' words; empty when none.

    Pods that give resources for the whole pod need not.
    """
    if pod.spec.resources is not None and (pod.spec.resources.requests or pod.spec.resources.limits):
        return ""
    missing: dict[str, set[str]] = {}
    demanded = _DEMANDED & set(names)
    for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ())):
        requests, limits = container.resources.requests or {}, container.resources.limits or {}
        given = {name for plain in requests for name in (plain, f"requests.{plain}")}
        given |= {f"limits.{plain}" for plain in limits}
        for name in demanded - given:
            missing.setdefault(name, set()).add(container.name)
    if not missing:
        return ""
    parts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(missing.items())]
    return f"must specify {'; '.join(parts)}"


def _pod(pod: core.Pod) -> Usage:
    if has_ended(pod):
        return {}
    used: Usage = {"pods": to_units("pods", 1)}
    _add(used, pod_requests(pod.spec), "requests.")
    _add(used, pod_limits(pod.spec), "limits.")
    return used


def _add(used: Usage, amounts: Mapping[str, int], prefix: str) -> None:
    for name, amount in amounts.items():
        used[prefix + name] = amount
        if prefix == "requests." and (name in _COMPUTE or name.startswith("hugepages-")):
            used[name] = amount


def _service(service: core.Service) -> Usage:
    spec, one = service.spec, to_units("services", 1)
    ports = len(spec.ports or ())
    used = {"services": one}
    if spec.type == "LoadBalancer":
        used["services.loadbalancers"] = one
        if spec.allocate_load_balancer_node_ports is False:
            ports = sum(1 for port in spec.ports or () if port.node_port)
    if spec.type in ("NodePort", "LoadBalancer"):
        used["services.nodeports"] = ports * one
    return used


def _claim(claim: core.PersistentVolumeClaim) -> Usage:
    one = to_units("persistentvolumeclaims", 1)
    used = {"persistentvolumeclaims": one}
    storage_class = class_of_claim(claim)
    asked = (claim.spec.resources.requests or {}).get("storage")
    if asked is not None:
        used["requests.storage"] = to_units("requests.storage", asked)
    if storage_class:
        used[f"{storage_class}{_STORAGE_CLASS}persistentvolumeclaims"] = one
        if asked is not None:
            name = f"{storage_class}{_STORAGE_CLASS}requests.storage"
            used[name] = to_units(name, asked)
    return used
