"""Fleets of clusters with the fields of Kurator: AttachedCluster, Fleet and Application."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from unisono.api import base

READY: Final = "Ready"
"""Condition: the cluster is reachable and all that a hub reads of it has been read."""
REACHABLE: Final = "Reachable"
"""Condition: the API server of the cluster answers probes."""

PENDING, PARTLY, ALL_READY, FAILED = "Pending", "Running", "Ready", "Failed"

MOST_CLUSTERS: Final = 1000
"""Clusters that one Fleet may name."""


class KubeconfigRef(base.Base):
    """Where the kubeconfig of a cluster is kept.

    Attributes:
        name: Secret in the namespace of the AttachedCluster.
        key: entry of the Secret; without it ``value``, ``kubeconfig``, ``config`` or its only entry.
    """

    name: base.ObjectName | None = None
    key: str | None = None


class AttachedClusterSpec(base.Base):
    """How to reach a cluster that exists.

    Attributes:
        kubeconfig: where its kubeconfig is.
        kubeconfig_secret_ref: short form of ``kubeconfig.name``.
    """

    kubeconfig: KubeconfigRef | None = None
    kubeconfig_secret_ref: base.ObjectName | None = None

    @property
    def secret(self) -> KubeconfigRef:
        """The Secret that is meant, whichever way it is written; its name is empty where none is."""
        given = self.kubeconfig or KubeconfigRef()
        return KubeconfigRef(name=given.name or self.kubeconfig_secret_ref or "", key=given.key)


class NodeSummary(base.Base):
    """Nodes of a cluster."""

    total_num: base.Natural | None = None
    ready_num: base.Natural | None = None


class ResourceSummary(base.Base):
    """Resources of all ready nodes together.

    Attributes:
        allocatable: what pods may use.
        allocated: what pods with a node request.
    """

    allocatable: base.ResourceList | None = None
    allocated: base.ResourceList | None = None


class AcceleratorSummary(base.Base):
    """Accelerators of one type.

    Attributes:
        resource: resource name, such as ``nvidia.com/gpu``.
        type: model by the nodes' labels; empty where they do not tell.
        total: how many the ready nodes have.
        free: how many no pod holds.
        largest_free_block: most that are free on one node.
    """

    resource: str | None = None
    type: str | None = None
    total: base.Quantity | None = None
    free: base.Quantity | None = None
    largest_free_block: base.Quantity | None = None


class NodeGroupSummary(base.Base):
    """Machines of one group that may come.

    Attributes:
        name: of the MachineDeployment (``NAMESPACE/NAME``) or NodePool.
        may_come: how many more may be asked for.
        promised: how many are promised to jobs of the hub, beside these.
        machine: what one has for pods.
        seconds: how long they take to come.
        price_per_hour: of one.
    """

    name: str | None = None
    may_come: base.Natural | None = None
    promised: base.Natural | None = None
    machine: base.ResourceList | None = None
    seconds: base.Natural | None = None
    price_per_hour: str | None = None


class AttachedClusterStatus(base.Base):
    """State of a member as its hub sees it.

    Attributes:
        ready: the same as condition Ready.
        conditions: Ready and Reachable.
        kubernetes_version: what its API server calls itself.
        node_summary: its nodes.
        resource_summary: its resources.
        accelerators: its accelerators by resource and type.
        node_groups: machines that may come.
        last_probe_time: when its API server answered last.
        lost_since: since when it has not answered.
    """

    ready: bool | None = None
    conditions: list[base.Condition] | None = None
    kubernetes_version: str | None = None
    node_summary: NodeSummary | None = None
    resource_summary: ResourceSummary | None = None
    accelerators: list[AcceleratorSummary] | None = None
    node_groups: list[NodeGroupSummary] | None = None
    last_probe_time: base.Time | None = None
    lost_since: base.Time | None = None


class AttachedCluster(base.Object):
    """A cluster that a hub knows by its kubeconfig."""

    spec: AttachedClusterSpec = msgspec.field(default_factory=AttachedClusterSpec)
    status: AttachedClusterStatus = msgspec.field(default_factory=AttachedClusterStatus)


class FleetCluster(base.Base):
    """A member of a fleet, in the fields of an object reference.

    Attributes:
        name: name of the AttachedCluster, in the fleet's namespace.
        kind: ``AttachedCluster``; ``Attached`` means the same.
        type: other spelling of ``kind``.
    """

    name: base.ObjectName | None = None
    kind: str | None = None
    type: str | None = None
    namespace: str | None = None
    api_version: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class FleetSpec(base.Base):
    """Clusters that are used together.

    Attributes:
        clusters: the members.
        plugin: add-ons of Kurator, which are kept and have no effect here.
    """

    clusters: Annotated[list[FleetCluster], Meta(extra_json_schema={"maxItems": MOST_CLUSTERS})] | None = None
    plugin: base.FreeObject | None = None


class FleetMemberStatus(base.Base):
    """State of one member.

    Attributes:
        name: of the AttachedCluster.
        ready: whether it takes work.
        message: why it does not.
    """

    name: str | None = None
    ready: bool | None = None
    message: str | None = None


class FleetStatus(base.Base):
    """State of a fleet.

    Attributes:
        phase: Pending (no member is ready), Running (some are) or Ready (all are).
        reason: what is wrong.
        ready_clusters: ready members.
        un_ready_clusters: the others.
        clusters: each member.
    """

    phase: str | None = None
    reason: str | None = None
    ready_clusters: base.Int32 | None = None
    un_ready_clusters: base.Int32 | None = None
    clusters: list[FleetMemberStatus] | None = None
    credential_secret: str | None = None
    plugin_endpoints: base.FreeObject | None = None
    observed_generation: int | None = None


class Fleet(base.Object):
    """Clusters that are used together."""

    spec: FleetSpec = msgspec.field(default_factory=FleetSpec)
    status: FleetStatus = msgspec.field(default_factory=FleetStatus)


# ``apps.kurator.dev``: Application, what is brought to every cluster of a fleet, with the fields of Kurator's kind.

MOST_POLICIES = 64
MOST_MANIFESTS = 256


class HelmRepository(base.Base):
    """Charts of a repository (Flux's HelmRepository): ``url`` of HTTP, or of an OCI registry with ``type: oci``."""

    url: base.Required = ""
    interval: base.Required = ""
    type: str | None = None
    provider: str | None = None
    secret_ref: base.FreeObject | None = None
    pass_credentials: bool | None = None
    timeout: str | None = None
    suspend: bool | None = None
    access_from: base.FreeObject | None = None


class GitRepository(base.Base):
    """Files of a Git repository (Flux's GitRepository)."""

    url: base.Required = ""
    interval: base.Required = ""
    ref: base.FreeObject | None = None
    secret_ref: base.FreeObject | None = None
    timeout: str | None = None
    ignore: str | None = None
    suspend: bool | None = None
    recurse_submodules: bool | None = None
    include: list[dict[str, Any]] | None = None
    verify: base.FreeObject | None = None
    git_implementation: str | None = None
    access_from: base.FreeObject | None = None


class OciRepository(base.Base):
    """Files of an OCI artifact (Flux's OCIRepository)."""

    url: base.Required = ""
    interval: base.Required = ""
    ref: base.FreeObject | None = None
    layer_selector: base.FreeObject | None = None
    provider: str | None = None
    secret_ref: base.FreeObject | None = None
    cert_secret_ref: base.FreeObject | None = None
    service_account_name: str | None = None
    insecure: bool | None = None
    timeout: str | None = None
    ignore: str | None = None
    suspend: bool | None = None
    verify: base.FreeObject | None = None


class ApplicationSource(base.Base):
    """Where the objects come from: exactly one of its fields.

    Attributes:
        manifests: the objects themselves; Unisono's own addition.
    """

    helm_repository: HelmRepository | None = None
    git_repository: GitRepository | None = None
    oci_repository: OciRepository | None = None
    manifests: Annotated[list[dict[str, Any]], Meta(extra_json_schema={"maxItems": MOST_MANIFESTS})] | None = None


class ClusterSelector(base.Base):
    """Members of the fleet by their labels."""

    match_labels: dict[str, str] | None = None


class ApplicationDestination(base.Base):
    """Clusters that get the objects.

    Attributes:
        fleet: name of a Fleet in the namespace of the Application.
        cluster_selector: some of its members; all without it.
    """

    fleet: Annotated[str, Meta(extra={"required": True})] = ""
    cluster_selector: ClusterSelector | None = None


class ChartSpec(base.Base):
    """Which chart of the repository."""

    chart: base.Required = ""
    version: str | None = None
    interval: str | None = None
    reconcile_strategy: str | None = None
    values_files: list[str] | None = None


class Chart(base.Base):
    """A chart, in the form of Flux's template."""

    metadata: base.FreeObject | None = None
    spec: ChartSpec = msgspec.field(default_factory=ChartSpec)


class HelmPolicy(base.Base):
    """A release of a chart (Flux's HelmRelease).

    Attributes:
        values: the chart's values.
    """

    chart: Chart = msgspec.field(default_factory=Chart)
    interval: base.Required = ""
    release_name: Annotated[str, Meta(extra_json_schema={"maxLength": 53})] | None = None
    target_namespace: base.ObjectName | None = None
    storage_namespace: base.ObjectName | None = None
    depends_on: list[dict[str, Any]] | None = None
    timeout: str | None = None
    max_history: base.Int32 | None = None
    service_account_name: str | None = None
    persistent_client: bool | None = None
    install: base.FreeObject | None = None
    upgrade: base.FreeObject | None = None
    rollback: base.FreeObject | None = None
    uninstall: base.FreeObject | None = None
    values_from: list[dict[str, Any]] | None = None
    values: base.FreeObject | None = None
    suspend: bool | None = None


class KustomizationPolicy(base.Base):
    """A folder of the source (Flux's Kustomization)."""

    interval: str | None = None
    prune: bool | None = None
    path: str | None = None
    target_namespace: base.ObjectName | None = None
    patches: list[dict[str, Any]] | None = None
    images: list[dict[str, Any]] | None = None
    depends_on: list[dict[str, Any]] | None = None
    timeout: str | None = None
    retry_interval: str | None = None
    suspend: bool | None = None
    force: bool | None = None
    components: list[str] | None = None
    common_metadata: base.FreeObject | None = None


class SyncPolicy(base.Base):
    """What goes where: a chart, a folder, or with inline manifests neither."""

    name: str | None = None
    destination: ApplicationDestination | None = None
    helm: HelmPolicy | None = None
    kustomization: KustomizationPolicy | None = None
    rollout: base.FreeObject | None = None


class ApplicationSpec(base.Base):
    """What is brought to the clusters of a fleet.

    Attributes:
        source: where it comes from.
        sync_policies: what of it goes where.
        destination: for policies that name none.
    """

    source: ApplicationSource = msgspec.field(default_factory=ApplicationSource)
    sync_policies: (
        Annotated[list[SyncPolicy], Meta(extra_json_schema={"maxItems": MOST_POLICIES}, extra={"required": True})]
        | None
    ) = None
    destination: ApplicationDestination | None = None


class ClusterSyncStatus(base.Base):
    """How one cluster fares.

    Attributes:
        cluster: the member.
        policy: name of the policy, or its number.
        synced: whether it has the objects.
        objects: how many.
        message: why it has not.
    """

    cluster: str | None = None
    policy: str | None = None
    synced: bool | None = None
    objects: base.Int32 | None = None
    message: str | None = None


class ApplicationStatus(base.Base):
    """State of an Application.

    Attributes:
        conditions: Ready, once every cluster has everything.
        clusters: result per cluster and policy.
        source_status, sync_status: as Kurator's controllers write them.
    """

    conditions: list[base.Condition] | None = None
    clusters: list[ClusterSyncStatus] | None = None
    source_status: base.FreeObject | None = None
    sync_status: list[dict[str, Any]] | None = None
    observed_generation: int | None = None


class Application(base.Object):
    """Objects for every cluster of a fleet."""

    spec: ApplicationSpec = msgspec.field(default_factory=ApplicationSpec)
    status: ApplicationStatus = msgspec.field(default_factory=ApplicationStatus)
