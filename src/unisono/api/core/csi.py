"""``storage.k8s.io`` beside classes: CSI drivers, the capacity that they report, and volumes that are attached."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.persistent_volume import PersistentVolumeSpec
from unisono.api.fields import Int32, Quantity, Required, Time
from unisono.api.meta import LabelSelector


class TokenRequest(Base):
    """A token of the pod's service account that the driver wants."""

    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(Base):
    """What a driver needs; ``storage_capacity``: pods wait until capacity is reported for their volumes."""

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: list[str] | None = None
    storage_capacity: bool | None = None
    fs_group_policy: str | None = None
    token_requests: list[TokenRequest] | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    node_allocatable_update_period_seconds: int | None = None
    service_account_token_in_secrets: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object):
    """A CSI driver of the cluster, by its name."""

    spec: CSIDriverSpec = msgspec.field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Object):
    """How much a driver can still make of a class for the nodes that ``node_topology`` selects; none without it.

    ``maximum_volume_size``, where given, bounds one volume more closely than ``capacity``.
    """

    node_topology: LabelSelector | None = None
    storage_class_name: Required = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Base):
    """What is attached: a volume by name, or one stated inline."""

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Base):
    """Which volume goes to which node by which driver."""

    attacher: Required = ""
    source: VolumeAttachmentSource = msgspec.field(default_factory=VolumeAttachmentSource)
    node_name: Required = ""


class VolumeError(Base):
    """A failed attempt."""

    time: Time | None = None
    message: str | None = None
    error_code: Int32 | None = None


class VolumeAttachmentStatus(Base):
    """How far it is."""

    attached: bool = False
    attachment_metadata: dict[str, str] | None = None
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(Object):
    """A volume that is, or is about to be, attached to a node."""

    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
    status: VolumeAttachmentStatus = msgspec.field(default_factory=VolumeAttachmentStatus)
