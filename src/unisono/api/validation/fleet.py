"""Rules of AttachedClusters, Fleets and Applications, and of PropagationPolicies and DataSources."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.annotations import GIGABYTES, PRICES
from unisono.api.field_error import FieldError, duplicate, invalid, not_supported, required
from unisono.api.groups.fleet import Application, ApplicationDestination, AttachedCluster, Fleet, SyncPolicy
from unisono.api.groups.propagation import (
    ClusterAffinity,
    ClusterPropagationPolicy,
    DataSource,
    Placement,
    PropagationPolicy,
)
from unisono.api.prices import parse_prices
from unisono.api.times import duration_or_none
from unisono.api.validation.meta import validate_selector

_ATTACHED = ("AttachedCluster", "Attached")
# A cluster's name begins the names of its nodes in the hub.
LONGEST_NAME = 63
FIELDS = ("provider", "region", "zone")
TYPES = ("Divided", "Duplicated")
PREFERENCES = ("Aggregated", "Weighted")
DYNAMIC = ("AvailableReplicas",)
MOST_WEIGHT = 1_000_000
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def validate_attached_cluster(cluster: AttachedCluster, _old: AttachedCluster | None) -> Iterator[FieldError]:
    """A Secret is named, once or twice the same."""
    spec, name = cluster.spec, cluster.metadata.name
    if len(name) > LONGEST_NAME:
        yield invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")
    if not spec.secret.name:
        yield required("spec.kubeconfig.name", "must be set: name the Secret that holds the kubeconfig")
    try:
        parse_prices((cluster.metadata.annotations or {}).get(PRICES, ""))
    except ValueError as error:
        yield invalid(f"metadata.annotations[{PRICES}]", (cluster.metadata.annotations or {})[PRICES], str(error))
    short, long = spec.kubeconfig_secret_ref, spec.kubeconfig.name if spec.kubeconfig is not None else None
    if short and long and short != long:
        yield invalid("spec.kubeconfigSecretRef", short, f"must be the same as spec.kubeconfig.name ({long})")


def validate_fleet(fleet: Fleet, _old: Fleet | None) -> Iterator[FieldError]:
    """Every member has a name, once, and is an attached cluster."""
    seen: set[str] = set()
    for index, member in enumerate(fleet.spec.clusters or ()):
        path = f"spec.clusters[{index}]"
        if not member.name:
            yield required(f"{path}.name")
        elif member.name in seen:
            yield duplicate(f"{path}.name", member.name)
        seen.add(member.name or "")
        for field, given in (("kind", member.kind), ("type", member.type)):
            if given and given not in _ATTACHED:
                yield not_supported(f"{path}.{field}", given, _ATTACHED)
        if member.namespace and member.namespace != fleet.metadata.namespace:
            detail = f"must be the namespace of the fleet ({fleet.metadata.namespace})"
            yield invalid(f"{path}.namespace", member.namespace, detail)


def validate_application(application: Application, _old: Application | None) -> Iterator[FieldError]:
    """One source, policies that fit it, and one fleet in the whole."""
    spec = application.spec
    source = spec.source
    given = [
        name
        for name, value in (
            ("helmRepository", source.helm_repository),
            ("gitRepository", source.git_repository),
            ("ociRepository", source.oci_repository),
            ("manifests", source.manifests),
        )
        if value is not None
    ]
    if len(given) != 1:
        yield required("spec.source", "exactly one of helmRepository, gitRepository, ociRepository and manifests")
        return
    for index, policy in enumerate(spec.sync_policies or ()):
        yield from _policy(policy, given[0], f"spec.syncPolicies[{index}]")
    yield from _fleets(spec.destination, spec.sync_policies or ())


def _policy(policy: SyncPolicy, source: str, path: str) -> Iterator[FieldError]:
    if policy.helm is not None and policy.kustomization is not None:
        yield invalid(path, "helm, kustomization", "a policy has one of helm and kustomization")
    if source == "manifests" and policy.helm is not None:
        yield invalid(f"{path}.helm", "helm", "inline manifests need no chart")
    elif source != "manifests" and policy.helm is None and policy.kustomization is None:
        yield required(path, "helm or kustomization must be set")
    if source == "helmRepository" and policy.kustomization is not None:
        yield invalid(f"{path}.kustomization", "kustomization", "a helmRepository has charts: set helm")


def _fleets(whole: ApplicationDestination | None, policies: list[SyncPolicy] | tuple[()]) -> Iterator[FieldError]:
    """As Kurator's webhook has it: the same fleet everywhere."""
    first = ""
    for index, policy in enumerate(policies):
        path = f"spec.syncPolicies[{index}].destination.fleet"
        named = policy.destination.fleet if policy.destination is not None else ""
        if whole is not None:
            if named and named != whole.fleet:
                yield invalid(path, named, f"must be same as application.spec.destination.fleet:{whole.fleet}")
            continue
        if not named:
            yield required(path, "must be set when application.spec.destination.fleet is not set")
        elif first and named != first:
            yield invalid(path, named, f"must be same as firstPolicyFleet:{first}")
        first = first or named


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
