"""Pods: spec, status, and where they may run."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, FreeObject, Int32, LabelSelector, Object, ObjectMeta, Required, ResourceList, Time
from unisono.api.core.container import Container, EphemeralContainer, PodSecurityContext, ResourceRequirements
from unisono.api.core.refs import LocalObjectReference
from unisono.api.core.volume import Volume

# Where a pod may run: node and pod affinity, tolerations, taints, spreading.


class NodeSelectorRequirement(Base):
    """``key operator values``; operators are In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: Required = ""
    operator: Required = ""
    values: list[str] | None = None


class NodeSelectorTerm(Base):
    """All requirements must hold; a term without any matches nothing."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Base):
    """One of the terms must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Base):
    """A node preference; weight 1 to 100."""

    weight: Int32 | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Base):
    """Required and preferred nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Base):
    """Pods that a pod wants near or far, per topology domain."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: Required = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Base):
    """A pod preference; weight 1 to 100."""

    weight: Int32 | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Base):
    """Pods to be near to."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class PodAntiAffinity(Base):
    """Pods to be away from."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Base):
    """Scheduling constraints of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Base):
    """Taints that a pod endures; no key with operator Exists endures all."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class Taint(Base):
    """What keeps pods away from a node; effects are NoSchedule, PreferNoSchedule, NoExecute."""

    key: Required = ""
    value: str | None = None
    effect: Required = ""
    time_added: Time | None = None


class TopologySpreadConstraint(Base):
    """How evenly matching pods are spread over topology domains."""

    max_skew: Int32 | None = None
    topology_key: Required = ""
    when_unsatisfiable: Required = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


# Status of pods and of their containers.


class PodCondition(Base):
    """Types are PodScheduled, Initialized, ContainersReady, Ready, DisruptionTarget, ..."""

    type: Required = ""
    observed_generation: int | None = None
    status: Required = ""
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class ContainerStateWaiting(Base):
    """Why a container does not run yet."""

    reason: str | None = None
    message: str | None = None


class ContainerStateRunning(Base):
    """Since when a container runs."""

    started_at: Time | None = None


class ContainerStateTerminated(Base):
    """How a container ended."""

    exit_code: Int32 | None = None
    signal: Int32 | None = None
    reason: str | None = None
    message: str | None = None
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str | None = msgspec.field(default=None, name="containerID")


class ContainerState(Base):
    """At most one of the three."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(Base):
    """A mount as it is."""

    name: Required = ""
    mount_path: Required = ""
    read_only: bool | None = None
    recursive_read_only: str | None = None


class ResourceHealth(Base):
    """Health of one device."""

    resource_id: Required = msgspec.field(default="", name="resourceID")
    health: str | None = None


class ResourceStatus(Base):
    """Health of the devices of a resource."""

    name: Required = ""
    resources: list[ResourceHealth] | None = None


class ContainerStatus(Base):
    """Status of one container; a started one has ``ready`` and ``restart_count`` set."""

    name: Required = ""
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)
    ready: bool | None = None
    restart_count: Int32 | None = None
    image: str | None = None
    image_id: str | None = msgspec.field(default=None, name="imageID")
    container_id: str | None = msgspec.field(default=None, name="containerID")
    started: bool | None = None
    allocated_resources: ResourceList | None = None
    resources: ResourceRequirements | None = None
    volume_mounts: list[VolumeMountStatus] | None = None
    user: FreeObject | None = None
    allocated_resources_status: list[ResourceStatus] | None = None
    stop_signal: str | None = None


class PodIP(Base):
    """An address of a pod."""

    ip: Required = ""


class HostIP(Base):
    """An address of the pod's node."""

    ip: Required = ""


class PodResourceClaimStatus(Base):
    """The claim that was made for ``pod.spec.resourceClaims[name]``."""

    name: Required = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Base):
    """Which request of a claim backs an extended resource of a container."""

    container_name: Required = ""
    resource_name: Required = ""
    request_name: Required = ""


class PodExtendedResourceClaimStatus(Base):
    """The claim that backs extended resources of the pod."""

    request_mappings: list[ContainerExtendedResourceRequest] | None = None
    resource_claim_name: Required = ""


class NodeAllocatableResourceClaimStatus(Base):
    """What a claim takes of a node's own resources, such as CPU."""

    resource_claim_name: Required = ""
    containers: list[str] | None = None
    resources: ResourceList | None = None


class PodStatus(Base):
    """Phases are Pending, Running, Succeeded, Failed, Unknown."""

    observed_generation: int | None = None
    phase: str | None = None
    conditions: list[PodCondition] | None = None
    message: str | None = None
    reason: str | None = None
    nominated_node_name: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    host_ips: list[HostIP] | None = msgspec.field(default=None, name="hostIPs")
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    pod_ips: list[PodIP] | None = msgspec.field(default=None, name="podIPs")
    start_time: Time | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    qos_class: str | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None
    resize: str | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: list[NodeAllocatableResourceClaimStatus] | None = None
    allocated_resources: ResourceList | None = None
    resources: ResourceRequirements | None = None


class HostAlias(Base):
    """A line of the pod's hosts file."""

    ip: Required = ""
    hostnames: list[str] | None = None


class PodDNSConfigOption(Base):
    """An option of resolv.conf."""

    name: str | None = None
    value: str | None = None


class PodDNSConfig(Base):
    """Additions to resolv.conf."""

    nameservers: list[str] | None = None
    searches: list[str] | None = None
    options: list[PodDNSConfigOption] | None = None


class PodReadinessGate(Base):
    """A condition that counts for readiness."""

    condition_type: Required = ""


class PodSchedulingGate(Base):
    """While a pod has gates it is not scheduled."""

    name: Required = ""


class PodOS(Base):
    """Operating system: linux or windows."""

    name: Required = ""


class PodResourceClaim(Base):
    """A device claim of the pod, by name or made from a template."""

    name: Required = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WorkloadReference(Base):
    """The Workload and the pod group in it that the pod belongs to."""

    name: Required = ""
    pod_group: Required = ""
    pod_group_replica_key: str | None = None


class PodSchedulingGroup(Base):
    """The group that the pod is to be scheduled with."""

    pod_group_name: str | None = None


class PodSpec(Base):
    """What a pod runs and where it may run."""

    volumes: list[Volume] | None = None
    init_containers: list[Container] | None = None
    containers: list[Container] | None = None
    ephemeral_containers: list[EphemeralContainer] | None = None
    restart_policy: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    automount_service_account_token: bool | None = None
    node_name: str | None = None
    host_network: bool | None = None
    host_pid: bool | None = msgspec.field(default=None, name="hostPID")
    host_ipc: bool | None = msgspec.field(default=None, name="hostIPC")
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: list[LocalObjectReference] | None = None
    hostname: str | None = None
    subdomain: str | None = None
    affinity: Affinity | None = None
    scheduler_name: str | None = None
    tolerations: list[Toleration] | None = None
    host_aliases: list[HostAlias] | None = None
    priority_class_name: str | None = None
    priority: Int32 | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: list[PodReadinessGate] | None = None
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: ResourceList | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    set_hostname_as_fqdn: bool | None = msgspec.field(default=None, name="setHostnameAsFQDN")
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    resource_claims: list[PodResourceClaim] | None = None
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    workload_ref: WorkloadReference | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodTemplateSpec(Base):
    """The pod that a controller makes."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class Pod(Object, weakref=True):
    """A group of containers that run together on one node."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)
