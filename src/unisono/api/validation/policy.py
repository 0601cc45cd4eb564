"""Rules of resource quotas and disruption budgets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unisono.api.core.policy import PodDisruptionBudget, ResourceQuota
from unisono.api.field_error import FieldError, invalid
from unisono.api.fields import IntOrString
from unisono.api.validation.meta import one_of, validate_selector
from unisono.api.validation.quantities import validate_resource_map

SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def validate_quota(quota: ResourceQuota, old: ResourceQuota | None) -> Iterator[FieldError]:
    """Names and amounts; the scopes stay as they are."""
    spec = quota.spec
    yield from validate_resource_map(spec.hard, "spec.hard")
    for index, scope in enumerate(spec.scopes or ()):
        yield from one_of(f"spec.scopes[{index}]", scope, SCOPES)
    if old is not None and set(spec.scopes or ()) != set(old.spec.scopes or ()):
        yield invalid("spec.scopes", spec.scopes, "field is immutable")
    yield from validate_resource_map(quota.status.hard, "status.hard")
    yield from validate_resource_map(quota.status.used, "status.used")


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
