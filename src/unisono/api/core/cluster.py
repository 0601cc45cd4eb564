"""Nodes, and what a cluster has beside them: Namespace, classes, Lease, ConfigMap, Secret, ServiceAccount, Event."""

from __future__ import annotations

import msgspec

from unisono.api.base import (
    Base,
    Base64,
    Condition,
    Int32,
    IntOrString,
    LabelSelector,
    MicroTime,
    Object,
    Required,
    ResourceList,
    Time,
)
from unisono.api.core.pod import Taint, Toleration
from unisono.api.core.refs import LocalObjectReference, ObjectReference

# LimitRange and ResourceQuota (v1), PodDisruptionBudget (policy/v1).


class ScopedResourceSelectorRequirement(Base):
    """``scopeName operator values``; operators are In, NotIn, Exists, DoesNotExist."""

    scope_name: Required = ""
    operator: Required = ""
    values: list[str] | None = None


class ScopeSelector(Base):
    """Which pods a quota counts, by properties such as their priority class."""

    match_expressions: list[ScopedResourceSelectorRequirement] | None = None


class ResourceQuotaSpec(Base):
    """What a namespace may use.

    Attributes:
        hard: the most of each resource, in quota names (``cpu``, ``requests.cpu``, ``limits.cpu``, ``count/pods``).
        scopes: count only objects that match all of these.
        scope_selector: the same, with values.
    """

    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Base):
    """What is in force, and used; a quota controller writes it."""

    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(Object):
    """A limit on what a namespace uses in all."""

    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


class PodDisruptionBudgetSpec(Base):
    """How many pods must stay.

    Attributes:
        min_available: pods that must stay healthy, as a number or a percentage.
        max_unavailable: pods that may be missing, as a number or a percentage; excludes the other.
        selector: the pods; without one none, with an empty one all of the namespace.
        unhealthy_pod_eviction_policy: IfHealthyBudget or AlwaysAllow.
    """

    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Base):
    """State of a budget; a disruption controller writes it.

    Attributes:
        disrupted_pods: pods whose eviction is on its way, by name.
        disruptions_allowed: how many more pods may go now.
    """

    observed_generation: int | None = None
    disrupted_pods: dict[str, Time] | None = None
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None
    conditions: list[Condition] | None = None


class PodDisruptionBudget(Object):
    """How many pods of a group may be missing at a time by choice."""

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class LimitRangeItem(Base):
    """Bounds on one type of thing.

    Attributes:
        type: Container, Pod or PersistentVolumeClaim.
        max: the most of each resource.
        min: the least of each resource.
        default: limits of containers that give none.
        default_request: requests of containers that give none.
        max_limit_request_ratio: how many times its request a limit may be.
    """

    type: Required = ""
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: ResourceList | None = None


class LimitRangeSpec(Base):
    """All bounds of a LimitRange."""

    limits: list[LimitRangeItem] = msgspec.field(default_factory=list)


class LimitRange(Object):
    """Defaults and bounds for what single containers, pods and claims of a namespace ask for."""

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)


# What a cluster has beside nodes: Namespace, PriorityClass, RuntimeClass (node.k8s.io/v1) and Lease.


class PriorityClass(Object):
    """A name for a pod priority; higher values go first."""

    value: Int32 | None = None
    global_default: bool | None = None
    description: str | None = None
    preemption_policy: str | None = None


class LeaseSpec(Base):
    """Who holds a lease and since when."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Object):
    """Leader election and node heartbeats."""

    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class NamespaceSpec(Base):
    """Finalizers that must be gone before a namespace is removed."""

    finalizers: list[str] | None = None


class NamespaceCondition(Base):
    """A condition of a namespace."""

    type: Required = ""
    status: Required = ""
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class NamespaceStatus(Base):
    """Phases are Active and Terminating."""

    phase: str | None = None
    conditions: list[NamespaceCondition] | None = None


class Namespace(Object):
    """A scope for names."""

    spec: NamespaceSpec = msgspec.field(default_factory=NamespaceSpec)
    status: NamespaceStatus = msgspec.field(default_factory=NamespaceStatus)


class RuntimeClassOverhead(Base):
    """What the runtime itself takes for each pod."""

    pod_fixed: ResourceList | None = None


class RuntimeClassScheduling(Base):
    """Which nodes have the runtime."""

    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None


class RuntimeClass(Object):
    """A container runtime by name; admission completes the pods that name it."""

    handler: Required = ""
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None


# ConfigMap, Secret and ServiceAccount.


class ConfigMap(Object):
    """Configuration as key-value pairs."""

    immutable: bool | None = None
    data: dict[str, str] | None = None
    binary_data: dict[str, Base64] | None = None


class Secret(Object):
    """Confidential key-value pairs; ``data`` is base64, ``string_data`` is write-only plain text."""

    immutable: bool | None = None
    data: dict[str, Base64] | None = None
    string_data: dict[str, str] | None = None
    type: str | None = None


class ServiceAccount(Object):
    """An identity of pods."""

    secrets: list[ObjectReference] | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
    automount_service_account_token: bool | None = None


# Event, core v1.


class EventSource(Base):
    """Who reports."""

    component: str | None = None
    host: str | None = None


class EventSeries(Base):
    """How often an event was seen since the first one."""

    count: Int32 | None = None
    last_observed_time: MicroTime | None = None


class Event(Object):
    """Something that happened to an object; types are Normal and Warning."""

    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    reason: str | None = None
    message: str | None = None
    source: EventSource = msgspec.field(default_factory=EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: Int32 | None = None
    type: str | None = None
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str | None = None
    related: ObjectReference | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


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
