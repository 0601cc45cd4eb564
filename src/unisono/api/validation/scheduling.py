"""Rules of pod groups, queues and HyperNodes that concern one object alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from unisono.api.annotations import GIGABYTES, LICENSES, PRICES
from unisono.api.base import ResourceList
from unisono.api.budgets import mistakes as wrong_budget
from unisono.api.budgets import wrong_prices
from unisono.api.defaulting.kubeflow import ROOT_QUEUE
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.groups import propagation
from unisono.api.groups.budgets import Budget, PriceList
from unisono.api.groups.calendar import Reservation, TemporaryQuota
from unisono.api.groups.fleet import Application, ApplicationDestination, AttachedCluster, Fleet, SyncPolicy
from unisono.api.groups.health import NodeCheck
from unisono.api.groups.quota import FloatingResource
from unisono.api.groups.scheduling import MOST_LEVELS, PodGroup, Queue, SubGroupPolicySpec, policies_above
from unisono.api.groups.topology import HyperNode, MemberSpec
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.api.licenses import NAME, PREFIX, licenses_of
from unisono.api.messages import TOPOLOGY_EXCLUSIVE
from unisono.api.node_checks import mistakes as check_mistakes
from unisono.api.node_usage import parse_prices
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.quantity import QuantityError, canonical, parse_quantity
from unisono.api.reservations import AMOUNTS, mistakes, quota_mistakes
from unisono.api.times import duration_or_none
from unisono.api.validation.meta import validate_resource_map, validate_selector
from unisono.api.validation.pod import validate_template

_NONE = "Either ExactMatch or RegexMatch or LabelMatch must be specified"
_SEVERAL = "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"


def validate_pod_group(group: PodGroup, old: PodGroup | None) -> Iterator[FieldError]:
    """Sizes, amounts and topology of a gang."""
    spec = group.spec
    for task, minimum in (spec.min_task_member or {}).items():
        if minimum < 0:
            yield invalid(f"spec.minTaskMember[{task}]", minimum, "must be greater than or equal to 0")
    yield from validate_resource_map(spec.min_resources, "spec.minResources")
    topology = spec.network_topology
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield invalid("spec.networkTopology", topology.highest_tier_name, f"{TOPOLOGY_EXCLUSIVE}.")
    policies = spec.sub_group_policy or ()
    parents = {policy.name: policy.parent for policy in policies}
    inner = frozenset(parents.values()) - {None}
    for index, policy in enumerate(policies):
        at = f"spec.subGroupPolicy[{index}]"
        yield from _part(policy, parents, at, inner=policy.name in inner)
        yield from validate_selector(policy.label_selector, f"{at}.labelSelector")
        below = policy.network_topology
        if below is not None and below.highest_tier_allowed is not None and below.highest_tier_name:
            detail = f"in subGroupPolicy '{policy.name or ''}': {TOPOLOGY_EXCLUSIVE}."
            yield invalid(f"{at}.networkTopology", below.highest_tier_name, detail)


def _part(
    policy: SubGroupPolicySpec, parents: Mapping[str | None, str | None], path: str, *, inner: bool
) -> Iterator[FieldError]:
    """Which pods are those of the policy, and which policy it is part of."""
    by_labels = policy.label_selector is not None or policy.match_label_keys or policy.match_policy
    if policy.pod_group_name and by_labels:
        yield forbidden(f"{path}.podGroupName", "may not be set beside labels: either tells which pods are meant")
    if inner and (by_labels or policy.pod_group_name or (policy.sub_group_size or 1) > 1):  # 1 is the default
        yield forbidden(path, f"{policy.name} is the parent of others: its members are their sub-groups, not pods")
    if not policy.parent:
        return
    if policy.parent not in parents:
        yield invalid(f"{path}.parent", policy.parent, "must be the name of another policy")
    if policy.min_sub_groups and not inner:
        detail = f"may not be set beside parent: minSubGroups of {policy.parent} counts its sub-groups"
        yield forbidden(f"{path}.minSubGroups", detail)
    above = policies_above(policy.name, parents)
    if len(above) == MOST_LEVELS:
        yield invalid(f"{path}.parent", policy.parent, f"policies may be nested {MOST_LEVELS} levels deep at most")
    elif policy.name in above:
        yield invalid(f"{path}.parent", policy.parent, "policies may not be part of each other")


def validate_queue(queue: Queue, old: Queue | None) -> Iterator[FieldError]:
    """Amounts, their order, state, hierarchy annotations; the root queue stays as it is."""
    spec, name = queue.spec, queue.metadata.name
    guarantee = spec.guarantee.resource if spec.guarantee is not None else None
    errors = [
        *validate_resource_map(spec.capability, "spec.capability"),
        *validate_resource_map(spec.deserved, "spec.deserved"),
        *validate_resource_map(guarantee, "spec.guarantee.resource"),
    ]
    yield from errors
    if not errors:
        yield from _ordered(spec.capability or {}, spec.deserved, guarantee or {})
    for index, cluster in enumerate(spec.extend_clusters or ()):
        yield from validate_resource_map(cluster.capacity, f"spec.extendClusters[{index}].capacity")
    # Closing and Unknown are written by the controller; a user may ask for Open or Closed.
    if old is None and queue.status.state not in (None, "", "Open", "Closed"):
        yield not_supported("status.state", queue.status.state, ("Open", "Closed"))
    yield from _hierarchy(queue.metadata.annotations or {})
    if name and spec.parent == name:
        yield invalid("spec.parent", spec.parent, f"queue {name} cannot use itself as parent")
    if old is not None and name == ROOT_QUEUE:
        before = old.spec
        if (spec.capability, spec.deserved, spec.guarantee) != (before.capability, before.deserved, before.guarantee):
            detail = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
            yield forbidden("spec", detail)


def _ordered(capability: ResourceList, deserved: ResourceList | None, guarantee: ResourceList) -> Iterator[FieldError]:
    """Guarantee <= deserved <= capability, per resource.

    Unlike Volcano, a guarantee without any ``deserved`` is fine as long as the capability covers it: that is how queues
    for the proportion plug-in are written.
    """
    for name, least in guarantee.items():
        bound, title = (deserved, "deserved") if deserved else (capability, "capability")
        path = f"spec.{title}[{name}]"
        if deserved and name not in deserved:
            yield invalid(path, "", f"deserved[{name}] must be >= guarantee[{name}]={canonical(least)}")
        elif name in bound and _less(bound[name], least):
            have = canonical(bound[name])
            yield invalid(path, have, f"{title}[{name}]={have} must be >= guarantee[{name}]={canonical(least)}")
    for name, share in (deserved or {}).items():
        if name in capability and _less(capability[name], share):
            limit, have = canonical(capability[name]), canonical(share)
            detail = f"deserved[{name}]={have} must be <= capability[{name}]={limit}"
            yield invalid(f"spec.deserved[{name}]", have, detail)


def _less(left: str | int | float, right: str | int | float) -> bool:
    try:
        return parse_quantity(left) < parse_quantity(right)
    except QuantityError:
        return False


def _hierarchy(annotations: dict[str, str]) -> Iterator[FieldError]:
    path, weights = annotations.get(HIERARCHY, ""), annotations.get(HIERARCHY_WEIGHTS, "")
    if not path and not weights:
        return
    where = "metadata.annotations"
    if not path or not weights:
        have, lacks = (HIERARCHY, HIERARCHY_WEIGHTS) if path else (HIERARCHY_WEIGHTS, HIERARCHY)
        detail = f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}: {have} needs {lacks} beside it"
        yield invalid(where, path or weights, detail)
        return
    shares = weights.split("/")
    if len(path.split("/")) != len(shares):
        yield invalid(where, path, f"{HIERARCHY} must have the same length with {HIERARCHY_WEIGHTS}")
    for share in shares:
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if math.isnan(value):
            yield invalid(
                where, weights, f"{share or 'an empty part'} in the {weights} is invalid number: write a number above 0"
            )
        elif value <= 0:
            yield invalid(where, weights, f"{share} in the {weights} must be larger than 0")


def validate_hyper_node(node: HyperNode, old: HyperNode | None) -> Iterator[FieldError]:
    """A tier, and members that each say in exactly one way which nodes or HyperNode they mean."""
    spec = node.spec
    if spec.tier is None:
        yield required("spec.tier", "say how good the network is: 1 below one switch, 2 below the next, ...")
    if not spec.members:
        yield required("spec.members", "member must have at least one member")
    for index, member in enumerate(spec.members or ()):
        yield from _member(node.metadata.name, member, f"spec.members[{index}]")


def _member(owner: str, member: MemberSpec, path: str) -> Iterator[FieldError]:
    selector = member.selector
    given = [] if selector is None else [selector.exact_match, selector.regex_match, selector.label_match]
    number = sum(each is not None for each in given)
    if selector is None or number != 1:
        yield invalid(f"{path}.selector", "", _SEVERAL if number else _NONE)
        return
    if selector.exact_match is not None:
        name = selector.exact_match.name
        if not name:
            yield required(f"{path}.selector.exactMatch.name", "member exactMatch must have a name")
        elif member.type == "HyperNode" and name == owner:
            yield invalid(f"{path}.selector.exactMatch.name", name, "a HyperNode cannot be a member of itself")
    elif member.type == "HyperNode":
        yield invalid(f"{path}.selector", "", "a member of type HyperNode must be named by exactMatch")
    if selector.regex_match is not None:
        yield from _pattern(selector.regex_match.pattern or "", f"{path}.selector.regexMatch.pattern")
    yield from validate_selector(selector.label_match, f"{path}.selector.labelMatch")


def _pattern(text: str, path: str) -> Iterator[FieldError]:
    if not text:
        yield required(path, "member regexMatch must have a pattern")
        return
    try:
        compile_pattern(text)
    except PatternError as error:
        yield invalid(path, text, f"member regexMatch pattern is invalid: {error}")


def validate_reservation(reservation: Reservation, old: Reservation | None) -> Iterator[FieldError]:
    """A time, nodes, and for whom they are."""
    yield from mistakes(reservation.spec)
    yield from validate_resource_map(reservation.spec.amounts, "spec.amounts")


def validate_temporary_quota(quota: TemporaryQuota, old: TemporaryQuota | None) -> Iterator[FieldError]:
    """A time, a queue, and numbers."""
    spec = quota.spec
    yield from quota_mistakes(spec)
    for name in AMOUNTS:
        yield from validate_resource_map(getattr(spec, name), f"spec.{name}")


def validate_node_check(check: NodeCheck, old: NodeCheck | None) -> Iterator[FieldError]:
    """Nodes, when, and a pod."""
    yield from check_mistakes(check)
    if check.spec.template is not None:
        yield from validate_template(check.spec.template, "spec.template")


# Rules of AttachedClusters, Fleets and Applications, and of PropagationPolicies and DataSources.

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
        yield from _propagation_policy(policy, given[0], f"spec.syncPolicies[{index}]")
    yield from _fleets(spec.destination, spec.sync_policies or ())


def _propagation_policy(policy: SyncPolicy, source: str, path: str) -> Iterator[FieldError]:
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
    policy: propagation.PropagationPolicy | propagation.ClusterPropagationPolicy,
    _old: propagation.PropagationPolicy | propagation.ClusterPropagationPolicy | None,
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
    if placement.choice is not None and placement.choice not in propagation.CHOICES:
        yield not_supported("spec.placement.choice", placement.choice, propagation.CHOICES)
    yield from _replica_scheduling(placement)
    for index, each in enumerate(placement.spread_constraints or ()):
        low, high = each.min_groups or 0, each.max_groups
        if high is not None and high < max(low, 1):
            path = f"spec.placement.spreadConstraints[{index}].maxGroups"
            yield invalid(path, high, f"must be at least 1 and not less than minGroups ({low})")


def _replica_scheduling(placement: propagation.Placement) -> Iterator[FieldError]:
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


def _affinity(affinity: propagation.ClusterAffinity, path: str) -> Iterator[FieldError]:
    yield from validate_selector(affinity.label_selector, f"{path}.labelSelector")
    selector = affinity.field_selector
    for index, each in enumerate((selector.match_expressions if selector is not None else None) or ()):
        at = f"{path}.fieldSelector.matchExpressions[{index}]"
        if each.key not in FIELDS:
            yield not_supported(f"{at}.key", each.key, FIELDS)
        if each.operator not in _OPERATORS:
            yield not_supported(f"{at}.operator", each.operator, _OPERATORS)


def validate_data_source(source: propagation.DataSource, _old: propagation.DataSource | None) -> Iterator[FieldError]:
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


# Rules of FloatingResources, and of what asks for them.


def validate_floating_resource(floating: FloatingResource, _old: FloatingResource | None) -> Iterator[FieldError]:
    """A name that resources may have, and a number or a source that knows it."""
    spec, name = floating.spec, floating.metadata.name
    if not re.fullmatch(NAME, name):
        yield invalid("metadata.name", name, f"must match {NAME}: pods ask for {PREFIX}NAME")
    source = spec.source
    if spec.amount is None and (source is None or not source.amount_pointer):
        yield required("spec.amount", "say how many there are, or where a source tells it (spec.source.amountPointer)")
    if spec.amount is not None and spec.in_use is not None and spec.in_use > spec.amount:
        yield invalid("spec.inUse", spec.in_use, f"must be no more than spec.amount, which is {spec.amount}")
    if source is None:
        return
    if not _URL.fullmatch(source.url):
        yield invalid("spec.source.url", source.url, "must be an http or https URL with a host, without a password")
    if not source.amount_pointer and not source.in_use_pointer:
        yield required("spec.source.amountPointer", "say where the answer has a number, such as /licenses/total")
    for field, pointer in (("amountPointer", source.amount_pointer), ("inUsePointer", source.in_use_pointer)):
        if pointer and not pointer.startswith("/"):
            yield invalid(f"spec.source.{field}", pointer, "must be a JSON pointer, such as /licenses/total")
    if source.stale_seconds < 2 * source.interval_seconds:
        detail = f"must be at least twice spec.source.intervalSeconds, which is {source.interval_seconds}"
        yield invalid("spec.source.staleSeconds", source.stale_seconds, detail)


def validate_budget(budget: Budget, _old: Budget | None) -> Iterator[FieldError]:
    """Whose it is, how much there is, and when it begins anew."""
    yield from wrong_budget(budget.spec)


def validate_price_list(prices: PriceList, _old: PriceList | None) -> Iterator[FieldError]:
    """Resources and numbers."""
    yield from wrong_prices(prices)


_URL = re.compile(r"https?://[^/?#@\s]+([/?#]\S*)?")


def validate_licenses(annotations: Mapping[str, str] | None) -> Iterator[FieldError]:
    """The annotation by which a job asks for floating resources as a whole."""
    text = (annotations or {}).get(LICENSES, "")
    try:
        licenses_of(text)
    except ValueError as error:
        yield invalid(f"metadata.annotations[{LICENSES}]", text, str(error))
