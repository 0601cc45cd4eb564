"""Rules of resource quotas, limit ranges and disruption budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from unisono.api import names
from unisono.api.base import IntOrString
from unisono.api.core.policy import (
    LimitRange,
    LimitRangeItem,
    PodDisruptionBudget,
    ResourceQuota,
    ResourceQuotaSpec,
    ScopeSelector,
)
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, required
from unisono.api.quantity import canonical, parse_quantity, to_milli
from unisono.api.validation.meta import (
    by,
    is_extended,
    one_of,
    validate_amount,
    validate_resource_map,
    validate_selector,
)

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
TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_FIELDS = (
    ("max", "max"),
    ("min", "min"),
    ("default", "default"),
    ("default_request", "defaultRequest"),
    ("max_limit_request_ratio", "maxLimitRequestRatio"),
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


def validate_limit_range(limits: LimitRange, old: LimitRange | None) -> Iterator[FieldError]:
    """Every type once, amounts in order: min, default request, default, max."""
    seen: set[str] = set()
    for index, item in enumerate(limits.spec.limits):
        path = f"spec.limits[{index}]"
        if not item.type:
            yield required(f"{path}.type")
        elif item.type not in TYPES and "/" not in item.type:
            yield invalid(f"{path}.type", item.type, "must be a standard limit type or fully qualified")
        if item.type in seen:
            yield duplicate(f"{path}.type", item.type)
        seen.add(item.type)
        yield from _item(item, path)


def _item(item: LimitRangeItem, path: str) -> Iterator[FieldError]:
    broken = False
    for attribute, name in _FIELDS:
        for error in validate_resource_map(getattr(item, attribute), f"{path}.{name}"):
            broken = True
            yield error
    if item.type == "Pod":
        if item.default:
            yield forbidden(f"{path}.default", "may not be specified when `type` is 'Pod'")
        if item.default_request:
            yield forbidden(f"{path}.defaultRequest", "may not be specified when `type` is 'Pod'")
    if item.type == "PersistentVolumeClaim" and "storage" not in {**(item.min or {}), **(item.max or {})}:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", detail)
    if broken:
        return
    found = {name: getattr(item, attribute) or {} for attribute, name in _FIELDS}
    for resource in sorted({resource for amounts in found.values() for resource in amounts}):
        texts = {name: canonical(amounts[resource]) for name, amounts in found.items() if resource in amounts}
        yield from _order(texts, path, resource)
        yield from _ratio(texts, path, resource)


# Lower field, upper field, the field that is blamed, whose value is shown, and how Kubernetes words it.
_ORDER = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _order(texts: dict[str, str], path: str, resource: str) -> Iterator[FieldError]:
    for lower, upper, blamed, shown, wording in _ORDER:
        if lower in texts and upper in texts and parse_quantity(texts[lower]) > parse_quantity(texts[upper]):
            detail = wording.format(texts[lower], texts[upper])
            yield invalid(f"{path}.{blamed}[{resource}]", texts[shown], detail)
    limit, request = texts.get("default"), texts.get("defaultRequest")
    fixed = is_extended(resource) or resource.startswith("hugepages-")
    if fixed and limit is not None and request is not None and parse_quantity(limit) != parse_quantity(request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {resource}"
        yield invalid(f"{path}.defaultRequest[{resource}]", request, detail)


def _ratio(texts: dict[str, str], path: str, resource: str) -> Iterator[FieldError]:
    ratio = texts.get("maxLimitRequestRatio")
    if ratio is None:
        return
    where = f"{path}.maxLimitRequestRatio[{resource}]"
    if parse_quantity(ratio) < 1:
        yield invalid(where, ratio, f"ratio {ratio} is less than 1")
    if "min" in texts and "max" in texts and to_milli(texts["min"]) > 0:
        most = Fraction(to_milli(texts["max"]), to_milli(texts["min"]))
        if parse_quantity(ratio) > most:
            yield invalid(where, ratio, f"ratio {ratio} is greater than max/min = {float(most):f}")
