"""Which policy is about a job, where it may go now, why nowhere else, and where it had better go (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unisono.api.annotations import BANDWIDTH, DRAINED, FLEET, GIGABYTES, LAST_CLUSTER
from unisono.api.base import LabelSelector, LabelSelectorRequirement, Object
from unisono.api.core import Pod, PreferredSchedulingTerm
from unisono.api.groups import propagation
from unisono.api.groups.fleet import AttachedCluster
from unisono.api.keys import TOPOLOGY_ZONE
from unisono.api.kind import Kind
from unisono.api.selecting import is_empty, selects
from unisono.api.times import duration_or_none
from unisono.api.validation.scheduling import amount_or_none
from unisono.fleet.jobs.translation import region_of

# A job as the rules see it (pure).


@dataclass(frozen=True, slots=True)
class Subject:
    """What decides where a job goes, beside its pods' requests.

    Attributes:
        kind, api_versions: of the job.
        namespace, name, labels, annotations: of it.
        preferred: preferred node affinity of its first pod.
    """

    kind: str
    api_versions: tuple[str, ...]
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    preferred: Sequence[PreferredSchedulingTerm] = ()


def subject_of(kind: Kind[Any], job: Object, pods: Sequence[Pod] = ()) -> Subject:
    """The subject that a job is."""
    meta = job.metadata
    versions = tuple(f"{kind.group}/{each}" for each in (kind.version, *kind.alias_versions))
    affinity = pods[0].spec.affinity if pods else None
    nodes = affinity.node_affinity if affinity is not None else None
    preferred = nodes.preferred_during_scheduling_ignored_during_execution if nodes is not None else None
    return Subject(
        kind.kind, versions, meta.namespace or "", meta.name, meta.labels or {}, meta.annotations or {}, preferred or ()
    )


# Which PropagationPolicy is about a job (pure), by Karmada's order.

Policy = propagation.PropagationPolicy | propagation.ClusterPropagationPolicy


def policy_of(
    subject: Subject, own: Iterable[propagation.PropagationPolicy], all_: Iterable[propagation.ClusterPropagationPolicy]
) -> Policy | None:
    """The policy that counts: of the namespace before those of all, then by priority, closeness and name.

    Args:
        subject: the job.
        own: policies of its namespace.
        all_: policies of all namespaces.
    """
    return _best(subject, own) or _best(subject, all_)


def _best(subject: Subject, policies: Iterable[Policy]) -> Policy | None:
    candidates = []
    for policy in policies:
        close = max((_closeness(each, subject) for each in policy.spec.resource_selectors or ()), default=0)
        if close and not policy.metadata.deletion_timestamp:
            candidates.append((-(policy.spec.priority or 0), -close, policy.metadata.name, policy))
    return min(candidates, key=lambda each: each[:3])[3] if candidates else None


def _closeness(selector: propagation.ResourceSelector, subject: Subject) -> int:
    """3 where it names the job, 2 where it selects its labels, 1 where it means the kind, else 0."""
    if selector.kind != subject.kind or selector.api_version not in subject.api_versions:
        return 0
    if selector.namespace and selector.namespace != subject.namespace:
        return 0
    if selector.name:
        return 3 if selector.name == subject.name else 0
    required = selector.label_selector
    if required is None or is_empty(required):
        return 1
    return 2 if selects(required, subject.labels) else 0


# What rules know of a member, and which members an affinity of a policy means (pure).

PROVIDER = "provider"
"""Label of an AttachedCluster: whose machines they are."""
_GIGABITS = 1.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A member.

    Attributes:
        name: of it.
        labels: of its AttachedCluster.
        gone: it is lost or drained.
        gigabits: per second at which it gets data.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False
    gigabits: float = _GIGABITS

    @property
    def fields(self) -> dict[str, str]:
        """Provider, region and zone, as far as they are known."""
        labels = self.labels
        values = {
            "provider": labels.get(PROVIDER, ""),
            "region": region_of(labels),
            "zone": labels.get(TOPOLOGY_ZONE, ""),
        }
        return {key: value for key, value in values.items() if value}


def cluster_of_object(attached: AttachedCluster, *, lost: bool) -> Cluster:
    """A member as its AttachedCluster describes it."""
    marks = attached.metadata.annotations or {}
    return Cluster(
        attached.metadata.name,
        attached.metadata.labels or {},
        lost or marks.get(DRAINED) == "true",
        amount_or_none(marks.get(BANDWIDTH, "")) or _GIGABITS,
    )


def meant(affinity: propagation.ClusterAffinity | None, clusters: Iterable[Cluster]) -> list[str]:
    """Names of the clusters that meet an affinity; all of them without one."""
    return [each.name for each in clusters if affinity is None or _meets(affinity, each)]


def _meets(affinity: propagation.ClusterAffinity, cluster: Cluster) -> bool:
    if cluster.name in (affinity.exclude or ()):
        return False
    if affinity.cluster_names and cluster.name not in affinity.cluster_names:
        return False
    if affinity.label_selector is not None and not selects(affinity.label_selector, cluster.labels):
        return False
    expressions = affinity.field_selector.match_expressions if affinity.field_selector is not None else None
    return not expressions or selects(LabelSelector(match_expressions=expressions), cluster.fields)


# Data that jobs need: which clusters have them, and how long others take to get them (pure).

_BITS = 8.0


@dataclass(frozen=True, slots=True)
class DataWish:
    """Data that one job needs.

    Attributes:
        claim: name of its claim.
        source: name of the DataSource; empty while there is none.
        clusters: that have it.
        gigabytes: to bring to another; None where it cannot be brought.
    """

    claim: str
    source: str = ""
    clusters: tuple[str, ...] = ()
    gigabytes: float | None = None

    @property
    def can_move(self) -> bool:
        """Whether a cluster without the data may have the job."""
        return bool(self.source) and self.gigabytes is not None

    def outside(self, clusters: Sequence[Cluster], known: Mapping[str, str]) -> dict[str, str]:
        """Clusters that cannot have the job, and why, of those that could."""
        if self.can_move:
            return {}
        why = (
            f"does not have DataSource {self.source}"
            if self.source
            else f"no DataSource is bound to claim {self.claim}"
        )
        return {each.name: why for each in clusters if each.name not in known and each.name not in self.clusters}

    def seconds(self, clusters: Iterable[Cluster]) -> dict[str, float]:
        """How long each cluster takes to get the data."""
        size = (self.gigabytes or 0.0) * _BITS
        return {each.name: 0.0 if each.name in self.clusters else size / each.gigabits for each in clusters}


def source_of(
    claim: propagation.DataSourceClaim, sources: Iterable[propagation.DataSource]
) -> propagation.DataSource | None:
    """The DataSource that a claim means: the first by name with all that it asks for."""
    asked = claim.spec
    candidates = [
        source
        for source in sources
        if (source.spec.system, source.spec.type, source.spec.name)
        == (asked.system, asked.data_source_type, asked.data_source_name)
        and (source.spec.attributes or {}) == (asked.attributes or {})
        and not source.metadata.deletion_timestamp
    ]
    return min(candidates, key=lambda source: source.metadata.name, default=None)


def is_about(claim: propagation.DataSourceClaim, subject: Subject) -> bool:
    """Whether a claim is a job's."""
    workload = claim.spec.workload
    return (
        claim.metadata.namespace == subject.namespace
        and workload.kind == subject.kind
        and workload.name == subject.name
        and workload.namespace in (None, "", subject.namespace)
        and (not workload.api_version or workload.api_version in subject.api_versions)
        and not claim.metadata.deletion_timestamp
    )


def wish_of(claim: propagation.DataSourceClaim, sources: Iterable[propagation.DataSource]) -> DataWish:
    """What a claim means for its job."""
    source = source_of(claim, sources)
    if source is None:
        return DataWish(claim.metadata.name)
    locality = source.spec.locality
    size = (source.metadata.annotations or {}).get(GIGABYTES, "")
    return DataWish(
        claim.metadata.name,
        source.metadata.name,
        tuple((locality.cluster_names if locality is not None else None) or ()),
        amount_or_none(size) if size else None,
    )


# Where a job may go now, why nowhere else, and which of those clusters it had better go to (pure).

FALLBACK_SECONDS: Final = 15.0
"""How long a job waits in the groups before one that does not say ``burstAfter``."""

TIER, DATA, AFFINITY, STICKINESS = "tier", "data", "affinity", "stickiness"
"""Reasons for points."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What follows for one job.

    Attributes:
        outside: clusters that it may not go to, and why.
        points: 0 to 100 by reason and cluster.
        again: the rules change by themselves after so many seconds; None when they do not.
        bound: something bounds the job to clusters, also to those that join later.
        choice: what the policy says of machines that may come.
    """

    outside: Mapping[str, str] = field(default_factory=dict)
    points: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    again: float | None = None
    bound: bool = False
    choice: str = propagation.SOONEST


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known when the rules are asked for.

    Attributes:
        subject: the job.
        clusters: all members.
        policy: the PropagationPolicy that is about it.
        fleet: members of the Fleet that it names; None where it names none.
        data: what it needs of data.
        waited: seconds that it has waited for a cluster.
        avoided: clusters that have failed it lately, and for how many seconds they are still avoided.
    """

    subject: Subject
    clusters: Sequence[Cluster]
    policy: Policy | None = None
    fleet: Collection[str] | None = None
    data: Sequence[DataWish] = ()
    waited: float = 0.0
    avoided: Mapping[str, float] = field(default_factory=dict)


def rules_of(asked: Asked) -> Rules:
    """The rules of a job now."""
    outside: dict[str, str] = {}
    points: dict[str, dict[str, float]] = {}
    again: list[float] = []
    if asked.fleet is not None:
        name = asked.subject.annotations.get(FLEET, "")
        why = f"is not in Fleet {name}" if asked.fleet else f"there is no Fleet {name}, or it has no members"
        outside |= {each.name: why for each in asked.clusters if each.name not in asked.fleet}
    for wish in asked.data:
        outside |= wish.outside(asked.clusters, outside)
    moves = [each.seconds(asked.clusters) for each in asked.data if each.can_move]
    if moves:
        points[DATA] = {
            each.name: 100.0 / (1.0 + sum(one.get(each.name, 0.0) for one in moves) / 600.0) for each in asked.clusters
        }
    if asked.policy is not None:
        ranks, after = _groups(asked, outside, again)
        if len(set(ranks.values())) > 1:
            last = max(ranks.values())
            points[TIER] = {name: 100.0 * (last - rank) / last for name, rank in ranks.items()}
        outside |= after
    for name, seconds in asked.avoided.items():
        if name not in outside:
            outside[name] = f"has failed this job and is not asked again for {seconds:.0f} s"
            again.append(seconds)
    wished = _wished(asked)
    if wished:
        points[AFFINITY] = wished
    last_one = asked.subject.annotations.get(LAST_CLUSTER)
    if last_one and any(each.name == last_one for each in asked.clusters):
        points[STICKINESS] = {last_one: 100.0}
    bound = asked.fleet is not None or asked.policy is not None or bool(asked.data)
    choice = (asked.policy.spec.placement.choice if asked.policy is not None else None) or propagation.SOONEST
    return Rules(outside, points, min(again) if again else None, bound, choice)


def _groups(asked: Asked, before: Mapping[str, str], again: list[float]) -> tuple[dict[str, int], dict[str, str]]:
    """Rank of each cluster that the policy means, and why not the others; ``again`` hears when a group opens."""
    assert asked.policy is not None
    placement, name = asked.policy.spec.placement, asked.policy.metadata.name
    terms = placement.cluster_affinities or ()
    if not terms:
        inside = set(meant(placement.cluster_affinity, asked.clusters))
        return {}, {
            each.name: f"is not meant by PropagationPolicy {name}" for each in asked.clusters if each.name not in inside
        }
    usable = {each.name for each in asked.clusters if not each.gone and each.name not in before}
    ranks: dict[str, int] = {}
    after: dict[str, str] = {}
    opens, earlier = 0.0, False
    for rank, term in enumerate(terms):
        own = [each for each in meant(term, asked.clusters) if each not in ranks]
        # Groups that have no cluster to offer hold nothing up.
        opens += _wait(term) if rank and earlier else 0.0
        earlier = earlier or any(each in usable for each in own)
        ranks |= dict.fromkeys(own, rank)
        if opens > asked.waited:
            again.append(opens - asked.waited)
            left = f"in {opens - asked.waited:.0f} s"
            after |= dict.fromkeys(
                own, f"opens {left}: it is of group {term.affinity_name} of PropagationPolicy {name}"
            )
    others = (each.name for each in asked.clusters if each.name not in ranks)
    return ranks, after | dict.fromkeys(others, f"is not meant by PropagationPolicy {name}")


def _wait(term: propagation.ClusterAffinityTerm) -> float:
    seconds = duration_or_none(term.burst_after)
    return FALLBACK_SECONDS if seconds is None else max(0.0, seconds)


def _wished(asked: Asked) -> dict[str, float]:
    """Preferred node affinity that is about labels of clusters: the share of its weight that each cluster meets."""
    weights: dict[str, float] = {}
    total = 0.0
    label_keys = {key for each in asked.clusters for key in each.labels}
    for term in asked.subject.preferred:
        expressions = [
            LabelSelectorRequirement(each.key, each.operator, each.values)
            for each in (term.preference.match_expressions if term.preference is not None else None) or ()
        ]
        if not expressions or any(each.key not in label_keys for each in expressions):
            continue
        weight = float(term.weight or 0)
        total += max(weight, 0.0)
        for each in asked.clusters:
            if selects(LabelSelector(match_expressions=expressions), each.labels):
                weights[each.name] = weights.get(each.name, 0.0) + weight
    return {name: 100.0 * weight / total for name, weight in weights.items()} if total > 0 else {}
