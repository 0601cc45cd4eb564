"""PriorityClass (scheduling.k8s.io/v1) and Lease (coordination.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.fields import Int32, MicroTime


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
