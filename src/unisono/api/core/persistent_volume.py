"""PersistentVolume (v1), StorageClass and CSINode (storage.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Object
from unisono.api.core.affinity import NodeSelector
from unisono.api.core.refs import ObjectReference, SecretReference
from unisono.api.core.volume import HostPathVolumeSource
from unisono.api.core.volume_drivers import NFSVolumeSource
from unisono.api.fields import FreeObject, Int32, Required, ResourceList, Time


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
