"""Rules of PropagationPolicies and DataSources."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.annotations import GIGABYTES
from unisono.api.field_error import FieldError, duplicate, invalid, not_supported, required
from unisono.api.propagation import (
    ClusterAffinity,
    ClusterPropagationPolicy,
    DataSource,
    Placement,
    PropagationPolicy,
)
from unisono.api.times import duration_or_none
from unisono.api.validation.meta import validate_selector

FIELDS = ("provider", "region", "zone")
TYPES = ("Divided", "Duplicated")
PREFERENCES = ("Aggregated", "Weighted")
DYNAMIC = ("AvailableReplicas",)
MOST_WEIGHT = 1_000_000
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def validate_policy(
    policy: PropagationPolicy | ClusterPropagationPolicy, _old: PropagationPolicy | ClusterPropagationPolicy | None
) -> Iterator[FieldError]:
    """It says what it is about, and either one group of clusters or several."""
    spec, placement = policy.spec, policy.spec.placement
    if not spec.resource_selectors:
        yield required("spec.resourceSelectors", "name what the policy is about")
    for index, selector in enumerate(spec.resource_selectors or ()):
        own = policy.metadata.namespace
        at = f"spec.resourceSelectors[{index}]"
        yield from validate_selector(selector.label_selector, f"{at}.labelSelector")
        if own and selector.namespace and selector.namespace != own:
            yield invalid(f"{at}.namespace", selector.namespace, f"must be the namespace of the policy ({own})")
    if placement.cluster_affinity is not None and placement.cluster_affinities:
        text = "clusterAffinities and clusterAffinity can not be set at the same time"
        yield invalid("spec.placement", "clusterAffinity, clusterAffinities", text)
    if placement.cluster_affinity is not None:
        yield from _affinity(placement.cluster_affinity, "spec.placement.clusterAffinity")
    seen: set[str] = set()
    for index, term in enumerate(placement.cluster_affinities or ()):
        path = f"spec.placement.clusterAffinities[{index}]"
        if not term.affinity_name:
            yield required(f"{path}.affinityName")
        elif term.affinity_name in seen:
            yield duplicate(f"{path}.affinityName", term.affinity_name)
        seen.add(term.affinity_name or "")
        if term.burst_after is not None and duration_or_none(term.burst_after) is None:
            yield invalid(f"{path}.burstAfter", term.burst_after, "must be a duration such as 10m")
        yield from _affinity(term, path)
    yield from _replica_scheduling(placement)
    for index, each in enumerate(placement.spread_constraints or ()):
        low, high = each.min_groups or 0, each.max_groups
        if high is not None and high < max(low, 1):
            path = f"spec.placement.spreadConstraints[{index}].maxGroups"
            yield invalid(path, high, f"must be at least 1 and not less than minGroups ({low})")


def _replica_scheduling(placement: Placement) -> Iterator[FieldError]:
    given, path = placement.replica_scheduling, "spec.placement.replicaScheduling"
    if given is None:
        return
    kind, preference = given.replica_scheduling_type, given.replica_division_preference
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.replicaSchedulingType", kind, TYPES)
    if preference and preference not in PREFERENCES:
        yield not_supported(f"{path}.replicaDivisionPreference", preference, PREFERENCES)
    weights = given.weight_preference
    if weights is None:
        return
    if weights.dynamic_weight and weights.dynamic_weight not in DYNAMIC:
        yield not_supported(f"{path}.weightPreference.dynamicWeight", weights.dynamic_weight, DYNAMIC)
    for index, each in enumerate(weights.static_weight_list or ()):
        at = f"{path}.weightPreference.staticWeightList[{index}]"
        if not 0 <= each.weight <= MOST_WEIGHT:
            yield invalid(f"{at}.weight", each.weight, f"must be from 0 to {MOST_WEIGHT}")
        yield from _affinity(each.target_cluster, f"{at}.targetCluster")


def _affinity(affinity: ClusterAffinity, path: str) -> Iterator[FieldError]:
    yield from validate_selector(affinity.label_selector, f"{path}.labelSelector")
    selector = affinity.field_selector
    for index, each in enumerate((selector.match_expressions if selector is not None else None) or ()):
        at = f"{path}.fieldSelector.matchExpressions[{index}]"
        if each.key not in FIELDS:
            yield not_supported(f"{at}.key", each.key, FIELDS)
        if each.operator not in _OPERATORS:
            yield not_supported(f"{at}.operator", each.operator, _OPERATORS)


def validate_data_source(source: DataSource, _old: DataSource | None) -> Iterator[FieldError]:
    """Its size is a number."""
    text = (source.metadata.annotations or {}).get(GIGABYTES)
    if text is not None and amount_or_none(text) is None:
        yield invalid(f"metadata.annotations[{GIGABYTES}]", text, "must be a number that is not negative")


def amount_or_none(text: str) -> float | None:
    """A finite number that is not negative."""
    try:
        amount = float(text)
    except ValueError:
        return None
    return amount if 0.0 <= amount < float("inf") else None
