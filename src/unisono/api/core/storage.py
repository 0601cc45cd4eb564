"""PersistentVolumeClaim."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, LabelSelector, Object, Required, ResourceList, Time
from unisono.api.core.refs import TypedLocalObjectReference, TypedObjectReference


class VolumeResourceRequirements(Base):
    """How much storage a claim needs and may use."""

    limits: ResourceList | None = None
    requests: ResourceList | None = None


class PersistentVolumeClaimSpec(Base):
    """What storage a claim asks for."""

    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = msgspec.field(default_factory=VolumeResourceRequirements)
    volume_name: str | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimCondition(Base):
    """A condition of a claim."""

    type: Required = ""
    status: Required = ""
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str | None = None
    message: str | None = None


class ModifyVolumeStatus(Base):
    """State of a change of the volume attributes class."""

    target_volume_attributes_class_name: str | None = None
    status: Required = ""


class PersistentVolumeClaimStatus(Base):
    """Phases are Pending, Bound, Lost."""

    phase: str | None = None
    access_modes: list[str] | None = None
    capacity: ResourceList | None = None
    conditions: list[PersistentVolumeClaimCondition] | None = None
    allocated_resources: ResourceList | None = None
    allocated_resource_statuses: dict[str, str] | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None


class PersistentVolumeClaim(Object):
    """A request for storage."""

    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)
