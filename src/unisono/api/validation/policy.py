"""Rules of resource quotas and disruption budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from unisono.api import names
from unisono.api.core.policy import PodDisruptionBudget, ResourceQuota, ResourceQuotaSpec, ScopeSelector
from unisono.api.field_error import FieldError, invalid, required
from unisono.api.fields import IntOrString
from unisono.api.validation.meta import by, one_of, validate_selector
from unisono.api.validation.quantities import validate_amount, validate_resource_map

SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
# What pods use at once, and what is counted in the namespace.
_COMPUTE = frozenset(
    f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in ("cpu", "memory", "ephemeral-storage")
) | {"pods"}
_COUNTED = frozenset(
    (
        "requests.storage",
        "persistentvolumeclaims",
        "configmaps",
        "secrets",
        "resourcequotas",
        "replicationcontrollers",
        "services",
        "services.nodeports",
        "services.loadbalancers",
    )
)
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def validate_quota(quota: ResourceQuota, old: ResourceQuota | None) -> Iterator[FieldError]:
    """Names and amounts; scopes fit the resources, do not contradict each other and stay as they are."""
    spec = quota.spec
    for name, amount in (spec.hard or {}).items():
        path = f"spec.hard[{name}]"
        yield from by(names.qualified_name, path, name)
        if "/" not in name and not is_standard_quota(name):
            yield invalid(path, name, "must be a standard resource type or fully qualified")
            yield invalid(path, name, "must be a standard resource for quota")
        yield from validate_amount(path, amount)
    yield from _scopes(spec)
    if spec.scope_selector is not None:
        yield from _selector(spec, spec.scope_selector)
    if old is not None and set(spec.scopes or ()) != set(old.spec.scopes or ()):
        yield invalid("spec.scopes", spec.scopes, "field is immutable")
    yield from validate_resource_map(quota.status.hard, "status.hard")
    yield from validate_resource_map(quota.status.used, "status.used")


def is_standard_quota(name: str) -> bool:
    """Names without a slash that a quota may limit."""
    return name in _COMPUTE or name in _COUNTED or name.startswith(("hugepages-", "requests.hugepages-"))


def _fits(scope: str, name: str) -> bool:
    """Whether a scope can select the objects that use a resource; names with a slash fit every scope."""
    if scope == "BestEffort":
        return name == "pods" or not is_standard_quota(name)
    return name in _COMPUTE or not is_standard_quota(name)


def _scopes(spec: ResourceQuotaSpec) -> Iterator[FieldError]:
    for scope in spec.scopes or ():
        if scope not in SCOPES:
            yield invalid("spec.scopes", spec.scopes, "unsupported scope")
        elif not all(_fits(scope, name) for name in spec.hard or ()):
            yield invalid("spec.scopes", spec.scopes, "unsupported scope applied to resource")
    yield from _contradictions(spec, spec.scopes or ())


def _selector(spec: ResourceQuotaSpec, selector: ScopeSelector) -> Iterator[FieldError]:
    path = "spec.scopeSelector.matchExpressions"
    for one in selector.match_expressions or ():
        if one.scope_name not in SCOPES:
            yield invalid(f"{path}.scopeName", one.scope_name, "unsupported scope")
        elif not all(_fits(one.scope_name, name) for name in spec.hard or ()):
            yield invalid(path, selector, "unsupported scope applied to resource")
        if one.scope_name in SCOPES and one.scope_name != "PriorityClass" and one.operator != "Exists":
            yield invalid(f"{path}.operator", one.operator, f"must be 'Exists' when scope is {one.scope_name}")
        if one.operator in ("In", "NotIn"):
            if not one.values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield required(f"{path}.values", detail)
        elif one.operator in ("Exists", "DoesNotExist"):
            if one.values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield invalid(f"{path}.values", one.values, detail)
        else:
            yield invalid(f"{path}.operator", one.operator, "not a valid selector operator")
    yield from _contradictions(spec, [one.scope_name for one in selector.match_expressions or ()])


def _contradictions(spec: ResourceQuotaSpec, scopes: Iterable[str]) -> Iterator[FieldError]:
    given = set(scopes)
    for pair in ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"}):
        if pair <= given:
            yield invalid("spec.scopes", spec.scopes, "conflicting scopes")


def validate_budget(budget: PodDisruptionBudget, old: PodDisruptionBudget | None) -> Iterator[FieldError]:
    """One of the two limits, as a number or a percentage."""
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    yield from _amount("spec.minAvailable", spec.min_available)
    yield from _amount("spec.maxUnavailable", spec.max_unavailable)
    yield from validate_selector(spec.selector, "spec.selector")
    policy = spec.unhealthy_pod_eviction_policy
    yield from one_of("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _amount(path: str, value: IntOrString | None) -> Iterator[FieldError]:
    if isinstance(value, int):
        if value < 0:
            yield invalid(path, value, "must be greater than or equal to 0")
    elif value is not None:
        if not _PERCENT.fullmatch(value):
            yield invalid(path, value, _PERCENT_RULE)
        elif int(value[:-1]) > 100:
            yield invalid(path, value, "must not be greater than 100%")
