"""``policy.karmada.io``: PropagationPolicy and ClusterPropagationPolicy, as far as a hub acts on them.

Fields of Karmada's kinds that nothing is done with are kept as they are.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unisono.api.base import Base, FreeObject, Int32, LabelSelector, LabelSelectorRequirement, Natural, Object, Required

MOST_SELECTORS = 64
MOST_GROUPS = 32


class ResourceSelector(Base):
    """Objects that a policy is about.

    Attributes:
        api_version: of their kind.
        kind: of them.
        namespace: without it the policy's, and of a ClusterPropagationPolicy all.
        name: of one object; ``label_selector`` then has no effect.
        label_selector: by their labels.
    """

    api_version: Required = ""
    kind: Required = ""
    namespace: str | None = None
    name: str | None = None
    label_selector: LabelSelector | None = None


class FieldSelector(Base):
    """Clusters by ``provider``, ``region`` and ``zone``."""

    match_expressions: list[LabelSelectorRequirement] | None = None


class ClusterAffinity(Base):
    """Clusters that meet all of its fields.

    Attributes:
        label_selector: labels of the AttachedCluster.
        field_selector: its provider, region and zone.
        cluster_names: names.
        exclude: names that are left out.
    """

    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: list[str] | None = None
    exclude: list[str] | None = None


class ClusterAffinityTerm(ClusterAffinity):
    """One of several groups of clusters that are tried in order.

    Attributes:
        affinity_name: of the group.
        burst_after: how long a job waits in the groups before this one until it may come here, such as ``10m``;
            Unisono's own addition.
    """

    affinity_name: str | None = None
    burst_after: str | None = None
    overflow_affinities: list[dict[str, Any]] | None = None


class StaticWeight(Base):
    """The weight of some clusters.

    Attributes:
        target_cluster: the clusters; of several entries about one the highest weight counts.
        weight: of each of them.
    """

    target_cluster: ClusterAffinity = msgspec.field(default_factory=ClusterAffinity)
    weight: Natural = 0


class WeightPreference(Base):
    """Weights by which replicas are divided.

    Attributes:
        static_weight_list: weights of clusters; those that no entry is about get nothing.
        dynamic_weight: ``AvailableReplicas``: the weight of a cluster is what it has room for; it goes before the list.
    """

    static_weight_list: list[StaticWeight] | None = None
    dynamic_weight: str | None = None


class ReplicaScheduling(Base):
    """How the replicas of Deployments, StatefulSets and batch Jobs are divided over the clusters.

    Attributes:
        replica_scheduling_type: Duplicated (every cluster gets all) or Divided.
        replica_division_preference: Aggregated (in few clusters) or Weighted; of Divided.
        weight_preference: of Weighted; without it all clusters are equal.
    """

    replica_scheduling_type: str | None = None
    replica_division_preference: str | None = None
    weight_preference: WeightPreference | None = None


class SpreadConstraint(Base):
    """Over how many groups of clusters a divided workload is spread.

    Attributes:
        spread_by_field: ``cluster``; others are kept and have no effect.
        min_groups: fewer are not enough; 1 without it.
        max_groups: more are not used.
    """

    spread_by_field: str | None = None
    spread_by_label: str | None = None
    min_groups: Int32 | None = None
    max_groups: Int32 | None = None


SOONEST, LEAST_COST, ROOM_ONLY = "Soonest", "LeastCost", "RoomOnly"
CHOICES = (SOONEST, LEAST_COST, ROOM_ONLY)


class Placement(Base):
    """Where objects go.

    Attributes:
        cluster_affinity: clusters that may have them.
        cluster_affinities: groups of clusters, tried in order.
        choice: ``Soonest`` (where nothing has room, the machines that may come soonest; the default), ``LeastCost``
            (room or machines, whatever costs less), or ``RoomOnly`` (no job waits for machines); Unisono's own
            addition.
        replica_scheduling: how replicas are divided over them; jobs go whole to one.
        spread_constraints: over how many clusters replicas are divided.
    """

    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: (
        Annotated[list[ClusterAffinityTerm], Meta(extra_json_schema={"maxItems": MOST_GROUPS})] | None
    ) = None
    choice: str | None = None
    cluster_tolerations: list[dict[str, Any]] | None = None
    spread_constraints: list[SpreadConstraint] | None = None
    replica_scheduling: ReplicaScheduling | None = None
    workload_affinity: FreeObject | None = None


class PropagationSpec(Base):
    """What goes where.

    Attributes:
        resource_selectors: the objects.
        placement: the clusters.
        priority: of several policies about an object the highest counts.
    """

    resource_selectors: (
        Annotated[list[ResourceSelector], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_SELECTORS})] | None
    ) = None
    placement: Placement = msgspec.field(default_factory=Placement)
    priority: Int32 | None = None
    propagate_deps: bool | None = None
    preemption: str | None = None
    association: bool | None = None
    dependent_overrides: list[str] | None = None
    scheduler_name: str | None = None
    conflict_resolution: str | None = None
    activation_preference: str | None = None
    suspension: FreeObject | None = None
    preserve_resources_on_deletion: bool | None = None
    schedule_priority: FreeObject | None = None
    failover: FreeObject | None = None


class PropagationPolicy(Object):
    """Where the jobs of one namespace go."""

    spec: PropagationSpec = msgspec.field(default_factory=PropagationSpec)


class ClusterPropagationPolicy(Object):
    """Where jobs go that no policy of their namespace is about."""

    spec: PropagationSpec = msgspec.field(default_factory=PropagationSpec)


class Locality(Base):
    """Clusters that have the data."""

    cluster_names: list[str] | None = None


class DataSourceSpec(Base):
    """Data, and where they are.

    Attributes:
        system: which keeps them, such as ``hive``.
        type: of data, such as ``table``.
        name: of the data in that system.
        locality: clusters that have them.
        attributes: further words that a claim must give, too.
    """

    system: Required = ""
    type: Required = ""
    name: Required = ""
    locality: Locality | None = None
    attributes: dict[str, str] | None = None
    reclaim_policy: str | None = None


class DataSourceStatus(Base):
    """Claims that are bound to it."""

    claim_refs: list[dict[str, Any]] | None = None
    bound_claims: Natural | None = None
    conditions: list[dict[str, Any]] | None = None


class DataSource(Object):
    """Data that clusters have."""

    spec: DataSourceSpec = msgspec.field(default_factory=DataSourceSpec)
    status: DataSourceStatus = msgspec.field(default_factory=DataSourceStatus)


class WorkloadRef(Base):
    """A job in the claim's namespace."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class DataSourceClaimSpec(Base):
    """Data that a job needs: ``system``, type and name of a DataSource, and its attributes where they are given."""

    system: Required = ""
    data_source_type: Required = ""
    data_source_name: Required = ""
    workload: WorkloadRef = msgspec.field(default_factory=WorkloadRef)
    attributes: dict[str, str] | None = None


class DataSourceClaimStatus(Base):
    """The DataSource that it is bound to; ``phase`` is Pending or Bound."""

    phase: str | None = None
    bound_data_source: str | None = None
    conditions: list[dict[str, Any]] | None = None


class DataSourceClaim(Object):
    """A job's claim to data."""

    spec: DataSourceClaimSpec = msgspec.field(default_factory=DataSourceClaimSpec)
    status: DataSourceClaimStatus = msgspec.field(default_factory=DataSourceClaimStatus)
