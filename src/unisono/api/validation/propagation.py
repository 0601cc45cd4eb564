"""Rules of PropagationPolicies and DataSources."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.annotations import GIGABYTES
from unisono.api.field_error import FieldError, duplicate, invalid, not_supported, required
from unisono.api.propagation import (
    ClusterAffinity,
    ClusterPropagationPolicy,
    DataSource,
    PropagationPolicy,
)
from unisono.api.times import duration_or_none
from unisono.api.validation.meta import validate_selector

FIELDS = ("provider", "region", "zone")
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
