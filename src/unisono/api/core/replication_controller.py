"""ReplicationController, the older form of a ReplicaSet."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.fields import Int32, Required, Time


class ReplicationControllerCondition(Base):
    """A condition of a ReplicationController."""

    type: Required = ""
    status: Required = ""
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class ReplicationControllerSpec(Base):
    """How many pods of which template."""

    replicas: Int32 | None = None
    min_ready_seconds: Int32 | None = None
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(Base):
    """How many pods there are."""

    replicas: Int32 | None = None
    fully_labeled_replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    observed_generation: int | None = None
    conditions: list[ReplicationControllerCondition] | None = None


class ReplicationController(Object):
    """A number of equal pods."""

    spec: ReplicationControllerSpec = msgspec.field(default_factory=ReplicationControllerSpec)
    status: ReplicationControllerStatus = msgspec.field(default_factory=ReplicationControllerStatus)
