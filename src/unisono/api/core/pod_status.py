"""Status of pods and of their containers."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base
from unisono.api.core.container import ResourceRequirements
from unisono.api.fields import FreeObject, Int32, Required, ResourceList, Time


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
