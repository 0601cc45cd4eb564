"""PersistentVolume (v1), StorageClass and CSINode (storage.k8s.io/v1), and what CSI drivers say of themselves."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, FreeObject, Int32, LabelSelector, Object, Quantity, Required, ResourceList, Time
from unisono.api.core.pod import NodeSelector
from unisono.api.core.refs import ObjectReference, SecretReference
from unisono.api.core.volume import HostPathVolumeSource, NFSVolumeSource


class VolumeNodeAffinity(Base):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class LocalVolumeSource(Base):
    """A disk or directory of one node."""

    path: Required = ""
    fs_type: str | None = None


class CSIPersistentVolumeSource(Base):
    """A volume of a CSI driver."""

    driver: Required = ""
    volume_handle: Required = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class PersistentVolumeSpec(Base):
    """A volume, and the claim that has it; sources that scheduling does not read are kept as they are."""

    capacity: ResourceList | None = None
    aws_elastic_block_store: FreeObject | None = None
    azure_disk: FreeObject | None = None
    azure_file: FreeObject | None = None
    cephfs: FreeObject | None = None
    cinder: FreeObject | None = None
    csi: CSIPersistentVolumeSource | None = None
    fc: FreeObject | None = None
    flex_volume: FreeObject | None = None
    flocker: FreeObject | None = None
    gce_persistent_disk: FreeObject | None = None
    glusterfs: FreeObject | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: FreeObject | None = None
    local: LocalVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    photon_persistent_disk: FreeObject | None = None
    portworx_volume: FreeObject | None = None
    quobyte: FreeObject | None = None
    rbd: FreeObject | None = None
    scale_io: FreeObject | None = msgspec.field(default=None, name="scaleIO")
    storageos: FreeObject | None = None
    vsphere_volume: FreeObject | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str | None = None
    storage_class_name: str | None = None
    mount_options: list[str] | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(Base):
    """Phases are Pending, Available, Bound, Released, Failed."""

    phase: str | None = None
    message: str | None = None
    reason: str | None = None
    last_phase_transition_time: Time | None = None


class PersistentVolume(Object):
    """A piece of storage of the cluster."""

    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)


class TopologySelectorLabelRequirement(Base):
    """A label that must have one of some values."""

    key: Required = ""
    values: list[str] | None = None


class TopologySelectorTerm(Base):
    """All requirements must hold."""

    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(Object):
    """A way to get volumes; ``volume_binding_mode`` is Immediate or WaitForFirstConsumer."""

    provisioner: Required = ""
    parameters: dict[str, str] | None = None
    reclaim_policy: str | None = None
    mount_options: list[str] | None = None
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(Base):
    """How many volumes of a driver a node can have; absent means no limit."""

    count: Int32 | None = None


class CSINodeDriver(Base):
    """A CSI driver on a node."""

    name: Required = ""
    node_id: str | None = msgspec.field(default=None, name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Base):
    """The drivers of a node."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(Object):
    """CSI drivers of the node of the same name."""

    spec: CSINodeSpec = msgspec.field(default_factory=CSINodeSpec)


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
