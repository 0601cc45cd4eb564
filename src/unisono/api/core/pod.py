"""Pod."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object, ObjectMeta
from unisono.api.core.affinity import Affinity, Toleration, TopologySpreadConstraint
from unisono.api.core.container import Container, EphemeralContainer, ResourceRequirements
from unisono.api.core.pod_status import PodStatus
from unisono.api.core.refs import LocalObjectReference
from unisono.api.core.security import PodSecurityContext
from unisono.api.core.volume import Volume
from unisono.api.fields import Int32, Required, ResourceList


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
