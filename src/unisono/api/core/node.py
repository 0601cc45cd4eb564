"""Node."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.affinity import Taint
from unisono.api.core.refs import ObjectReference
from unisono.api.fields import Int32, Required, ResourceList, Time


class ConfigMapNodeConfigSource(Base):
    """The ConfigMap that a node's agent reads (deprecated in Kubernetes)."""

    namespace: Required = ""
    name: Required = ""
    uid: str | None = None
    resource_version: str | None = None
    kubelet_config_key: Required = ""


class NodeConfigSource(Base):
    """Where a node's agent reads its configuration (deprecated in Kubernetes)."""

    config_map: ConfigMapNodeConfigSource | None = None


class NodeSpec(Base):
    """Whether and for whom a node takes pods."""

    pod_cidr: str | None = msgspec.field(default=None, name="podCIDR")
    pod_cidrs: list[str] | None = msgspec.field(default=None, name="podCIDRs")
    provider_id: str | None = msgspec.field(default=None, name="providerID")
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    config_source: NodeConfigSource | None = None
    external_id: str | None = msgspec.field(default=None, name="externalID")


class NodeCondition(Base):
    """Types are Ready, MemoryPressure, DiskPressure, PIDPressure, NetworkUnavailable, ..."""

    type: Required = ""
    status: Required = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class NodeAddress(Base):
    """Types are Hostname, InternalIP, ExternalIP, InternalDNS, ExternalDNS."""

    type: Required = ""
    address: Required = ""


class DaemonEndpoint(Base):
    """A port of the node's agent."""

    port: Int32 | None = msgspec.field(default=None, name="Port")


class NodeDaemonEndpoints(Base):
    """Ports of the node's daemons."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeSwapStatus(Base):
    """Swap of the node in bytes."""

    capacity: int | None = None


class NodeSystemInfo(Base):
    """Versions and identifiers of a node."""

    machine_id: str | None = msgspec.field(default=None, name="machineID")
    system_uuid: str | None = msgspec.field(default=None, name="systemUUID")
    boot_id: str | None = msgspec.field(default=None, name="bootID")
    kernel_version: str | None = None
    os_image: str | None = None
    container_runtime_version: str | None = None
    kubelet_version: str | None = None
    kube_proxy_version: str | None = None
    operating_system: str | None = None
    architecture: str | None = None
    swap: NodeSwapStatus | None = None


class ContainerImage(Base):
    """An image on a node."""

    names: list[str] | None = None
    size_bytes: int | None = None


class AttachedVolume(Base):
    """A volume attached to a node."""

    name: Required = ""
    device_path: str = ""


class NodeConfigStatus(Base):
    """State of the agent's configuration (deprecated in Kubernetes)."""

    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    last_known_good: NodeConfigSource | None = None
    error: str | None = None


class NodeRuntimeHandlerFeatures(Base):
    """What a runtime handler can do."""

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Base):
    """A runtime handler of a node."""

    name: str | None = None
    features: NodeRuntimeHandlerFeatures | None = None


class NodeFeatures(Base):
    """What the node's runtime can do."""

    supplemental_groups_policy: bool | None = None


class NodeStatus(Base):
    """What a node has (``capacity``), what pods may use of it (``allocatable``), how it is."""

    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    phase: str | None = None
    conditions: list[NodeCondition] | None = None
    addresses: list[NodeAddress] | None = None
    daemon_endpoints: NodeDaemonEndpoints = msgspec.field(default_factory=NodeDaemonEndpoints)
    node_info: NodeSystemInfo = msgspec.field(default_factory=NodeSystemInfo)
    images: list[ContainerImage] | None = None
    volumes_in_use: list[str] | None = None
    volumes_attached: list[AttachedVolume] | None = None
    config: NodeConfigStatus | None = None
    runtime_handlers: list[NodeRuntimeHandler] | None = None
    features: NodeFeatures | None = None
    declared_features: list[str] | None = None


class Node(Object):
    """A machine that runs pods."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Binding(Object):
    """Puts a pod on a node; ``metadata.name`` is the pod."""

    target: ObjectReference = msgspec.field(default_factory=ObjectReference)
