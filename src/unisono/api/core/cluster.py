"""What a cluster has beside nodes: Namespace, PriorityClass, RuntimeClass (node.k8s.io/v1) and Lease."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.affinity import Toleration
from unisono.api.fields import Int32, MicroTime, Required, ResourceList, Time


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
