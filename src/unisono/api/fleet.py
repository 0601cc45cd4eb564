"""``cluster.kurator.dev`` and ``fleet.kurator.dev``: AttachedCluster and Fleet, with the fields of Kurator's kinds."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object
from unisono.api.fields import FreeObject, Int32, Natural, ObjectName, Quantity, ResourceList, Time
from unisono.api.meta import Condition

READY: Final = "Ready"
"""Condition: the cluster is reachable and all that a hub reads of it has been read."""
REACHABLE: Final = "Reachable"
"""Condition: the API server of the cluster answers probes."""

PENDING, PARTLY, ALL_READY, FAILED = "Pending", "Running", "Ready", "Failed"

MOST_CLUSTERS: Final = 1000
"""Clusters that one Fleet may name."""


class KubeconfigRef(Base):
    """Where the kubeconfig of a cluster is kept.

    Attributes:
        name: Secret in the namespace of the AttachedCluster.
        key: entry of the Secret; without it ``value``, ``kubeconfig``, ``config`` or its only entry.

    """

    name: ObjectName | None = None
    key: str | None = None


class AttachedClusterSpec(Base):
    """How to reach a cluster that exists.

    Attributes:
        kubeconfig: where its kubeconfig is.
        kubeconfig_secret_ref: short form of ``kubeconfig.name``.

    """

    kubeconfig: KubeconfigRef | None = None
    kubeconfig_secret_ref: ObjectName | None = None

    @property
    def secret(self) -> KubeconfigRef:
        """The Secret that is meant, whichever way it is written; its name is empty where none is."""
        given = self.kubeconfig or KubeconfigRef()
        return KubeconfigRef(name=given.name or self.kubeconfig_secret_ref or "", key=given.key)


class NodeSummary(Base):
    """Nodes of a cluster."""

    total_num: Natural | None = None
    ready_num: Natural | None = None


class ResourceSummary(Base):
    """Resources of all ready nodes together.

    Attributes:
        allocatable: what pods may use.
        allocated: what pods with a node request.

    """

    allocatable: ResourceList | None = None
    allocated: ResourceList | None = None


class AcceleratorSummary(Base):
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
    total: Quantity | None = None
    free: Quantity | None = None
    largest_free_block: Quantity | None = None


class AttachedClusterStatus(Base):
    """State of a member as its hub sees it.

    Attributes:
        ready: the same as condition Ready.
        conditions: Ready and Reachable.
        kubernetes_version: what its API server calls itself.
        node_summary: its nodes.
        resource_summary: its resources.
        accelerators: its accelerators by resource and type.
        last_probe_time: when its API server answered last.
        lost_since: since when it has not answered.

    """

    ready: bool | None = None
    conditions: list[Condition] | None = None
    kubernetes_version: str | None = None
    node_summary: NodeSummary | None = None
    resource_summary: ResourceSummary | None = None
    accelerators: list[AcceleratorSummary] | None = None
    last_probe_time: Time | None = None
    lost_since: Time | None = None


class AttachedCluster(Object):
    """A cluster that a hub knows by its kubeconfig."""

    spec: AttachedClusterSpec = msgspec.field(default_factory=AttachedClusterSpec)
    status: AttachedClusterStatus = msgspec.field(default_factory=AttachedClusterStatus)


class FleetCluster(Base):
    """A member of a fleet, in the fields of an object reference.

    Attributes:
        name: name of the AttachedCluster, in the fleet's namespace.
        kind: ``AttachedCluster``; ``Attached`` means the same.
        type: other spelling of ``kind``.

    """

    name: ObjectName | None = None
    kind: str | None = None
    type: str | None = None
    namespace: str | None = None
    api_version: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class FleetSpec(Base):
    """Clusters that are used together.

    Attributes:
        clusters: the members.
        plugin: add-ons of Kurator, which are kept and have no effect here.

    """

    clusters: Annotated[list[FleetCluster], Meta(extra_json_schema={"maxItems": MOST_CLUSTERS})] | None = None
    plugin: FreeObject | None = None


class FleetMemberStatus(Base):
    """State of one member.

    Attributes:
        name: of the AttachedCluster.
        ready: whether it takes work.
        message: why it does not.

    """

    name: str | None = None
    ready: bool | None = None
    message: str | None = None


class FleetStatus(Base):
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
    ready_clusters: Int32 | None = None
    un_ready_clusters: Int32 | None = None
    clusters: list[FleetMemberStatus] | None = None
    credential_secret: str | None = None
    plugin_endpoints: FreeObject | None = None
    observed_generation: int | None = None


class Fleet(Object):
    """Clusters that are used together."""

    spec: FleetSpec = msgspec.field(default_factory=FleetSpec)
    status: FleetStatus = msgspec.field(default_factory=FleetStatus)
