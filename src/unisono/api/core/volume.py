"""Volumes of pods, and the claims that they are made of."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Int32, LabelSelector, Object, ObjectMeta, Quantity, Required, ResourceList, Time
from unisono.api.core.refs import (
    LocalObjectReference,
    ObjectFieldSelector,
    ResourceFieldSelector,
    TypedLocalObjectReference,
    TypedObjectReference,
)

# PersistentVolumeClaim.


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


# Volumes of a pod.


# Volume sources of storage systems outside the cluster.


class NFSVolumeSource(Base):
    """An NFS export."""

    server: Required = ""
    path: Required = ""
    read_only: bool | None = None


class GCEPersistentDiskVolumeSource(Base):
    """A disk of Google Compute Engine."""

    pd_name: Required = ""
    fs_type: str | None = None
    partition: Int32 | None = None
    read_only: bool | None = None


class AWSElasticBlockStoreVolumeSource(Base):
    """A volume of Amazon EBS."""

    volume_id: Required = msgspec.field(default="", name="volumeID")
    fs_type: str | None = None
    partition: Int32 | None = None
    read_only: bool | None = None


class GitRepoVolumeSource(Base):
    """A Git repository (deprecated in Kubernetes)."""

    repository: Required = ""
    revision: str | None = None
    directory: str | None = None


class ISCSIVolumeSource(Base):
    """An iSCSI disk."""

    target_portal: Required = ""
    iqn: Required = ""
    lun: Int32 | None = None
    iscsi_interface: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    portals: list[str] | None = None
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None


class GlusterfsVolumeSource(Base):
    """A Glusterfs volume."""

    endpoints: Required = ""
    path: Required = ""
    read_only: bool | None = None


class RBDVolumeSource(Base):
    """A Ceph block device."""

    monitors: list[str] | None = None
    image: Required = ""
    fs_type: str | None = None
    pool: str | None = None
    user: str | None = None
    keyring: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None


class FlexVolumeSource(Base):
    """A volume of an exec-based driver."""

    driver: Required = ""
    fs_type: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    options: dict[str, str] | None = None


class CinderVolumeSource(Base):
    """An OpenStack volume."""

    volume_id: Required = msgspec.field(default="", name="volumeID")
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class CephFSVolumeSource(Base):
    """A Ceph file system."""

    monitors: list[str] | None = None
    path: str | None = None
    user: str | None = None
    secret_file: str | None = None
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None


class FlockerVolumeSource(Base):
    """A Flocker data set."""

    dataset_name: str | None = None
    dataset_uuid: str | None = msgspec.field(default=None, name="datasetUUID")


class FCVolumeSource(Base):
    """A Fibre Channel disk."""

    target_wwns: list[str] | None = msgspec.field(default=None, name="targetWWNs")
    lun: Int32 | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    wwids: list[str] | None = None


class AzureFileVolumeSource(Base):
    """A share of Azure Files."""

    secret_name: Required = ""
    share_name: Required = ""
    read_only: bool | None = None


class AzureDiskVolumeSource(Base):
    """A disk of Azure."""

    disk_name: Required = ""
    disk_uri: Required = msgspec.field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class VsphereVirtualDiskVolumeSource(Base):
    """A vSphere disk."""

    volume_path: Required = ""
    fs_type: str | None = None
    storage_policy_name: str | None = None
    storage_policy_id: str | None = msgspec.field(default=None, name="storagePolicyID")


class QuobyteVolumeSource(Base):
    """A Quobyte volume."""

    registry: Required = ""
    volume: Required = ""
    read_only: bool | None = None
    user: str | None = None
    group: str | None = None
    tenant: str | None = None


class PhotonPersistentDiskVolumeSource(Base):
    """A Photon Controller disk."""

    pd_id: Required = msgspec.field(default="", name="pdID")
    fs_type: str | None = None


class PortworxVolumeSource(Base):
    """A Portworx volume."""

    volume_id: Required = msgspec.field(default="", name="volumeID")
    fs_type: str | None = None
    read_only: bool | None = None


class ScaleIOVolumeSource(Base):
    """A ScaleIO volume."""

    gateway: Required = ""
    system: Required = ""
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: bool | None = None
    protection_domain: str | None = None
    storage_pool: str | None = None
    storage_mode: str | None = None
    volume_name: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None


class StorageOSVolumeSource(Base):
    """A StorageOS volume."""

    volume_name: str | None = None
    volume_namespace: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class HostPathVolumeSource(Base):
    """A path of the node; types are "", DirectoryOrCreate, Directory, FileOrCreate, File, Socket, ..."""

    path: Required = ""
    type: str | None = None


class EmptyDirVolumeSource(Base):
    """A directory that lives as long as the pod; medium "" or Memory."""

    medium: str | None = None
    size_limit: Quantity | None = None


class KeyToPath(Base):
    """One key of a ConfigMap or Secret and the file it becomes."""

    key: Required = ""
    path: Required = ""
    mode: Int32 | None = None


class SecretVolumeSource(Base):
    """A Secret's keys as files."""

    secret_name: str | None = None
    items: list[KeyToPath] | None = None
    default_mode: Int32 | None = None
    optional: bool | None = None


class ConfigMapVolumeSource(Base):
    """A ConfigMap's keys as files."""

    name: str | None = None
    items: list[KeyToPath] | None = None
    default_mode: Int32 | None = None
    optional: bool | None = None


class DownwardAPIVolumeFile(Base):
    """A file with a field of the pod in it."""

    path: Required = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: Int32 | None = None


class DownwardAPIVolumeSource(Base):
    """Fields of the pod as files."""

    items: list[DownwardAPIVolumeFile] | None = None
    default_mode: Int32 | None = None


class SecretProjection(Base):
    """A Secret within a projected volume."""

    name: str | None = None
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class ConfigMapProjection(Base):
    """A ConfigMap within a projected volume."""

    name: str | None = None
    items: list[KeyToPath] | None = None
    optional: bool | None = None


class DownwardAPIProjection(Base):
    """Pod fields within a projected volume."""

    items: list[DownwardAPIVolumeFile] | None = None


class ServiceAccountTokenProjection(Base):
    """A token within a projected volume."""

    audience: str | None = None
    expiration_seconds: int | None = None
    path: Required = ""


class ClusterTrustBundleProjection(Base):
    """Trust anchors within a projected volume."""

    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool | None = None
    path: Required = ""


class PodCertificateProjection(Base):
    """A key and certificate within a projected volume."""

    signer_name: Required = ""
    key_type: Required = ""
    max_expiration_seconds: Int32 | None = None
    credential_bundle_path: str | None = None
    key_path: str | None = None
    certificate_chain_path: str | None = None
    user_annotations: dict[str, str] | None = None


class VolumeProjection(Base):
    """One source of a projected volume."""

    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(default=None, name="downwardAPI")
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None


class ProjectedVolumeSource(Base):
    """Several sources in one directory."""

    sources: list[VolumeProjection] | None = None
    default_mode: Int32 | None = None


class PersistentVolumeClaimVolumeSource(Base):
    """A claim of the same namespace."""

    claim_name: Required = ""
    read_only: bool | None = None


class PersistentVolumeClaimTemplate(Base):
    """The claim that an ephemeral volume makes."""

    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)


class EphemeralVolumeSource(Base):
    """A claim that lives as long as the pod."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Base):
    """An image's files."""

    reference: str | None = None
    pull_policy: str | None = None


class CSIVolumeSource(Base):
    """An inline volume of a CSI driver."""

    driver: Required = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] | None = None
    node_publish_secret_ref: LocalObjectReference | None = None


class VolumeSource(Base):
    """Exactly one of the sources; none means emptyDir."""

    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(default=None, name="downwardAPI")
    projected: ProjectedVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    image: ImageVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    glusterfs: GlusterfsVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    cephfs: CephFSVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    fc: FCVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    scale_io: ScaleIOVolumeSource | None = msgspec.field(default=None, name="scaleIO")
    storageos: StorageOSVolumeSource | None = None


class Volume(VolumeSource):
    """A named volume of a pod."""

    name: Required = ""
