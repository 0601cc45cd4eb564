"""Volumes of a pod."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Int32, LabelSelector, ObjectMeta, Quantity, Required
from unisono.api.core import volume_drivers as drivers
from unisono.api.core.refs import LocalObjectReference, ObjectFieldSelector, ResourceFieldSelector
from unisono.api.core.storage import PersistentVolumeClaimSpec


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
    nfs: drivers.NFSVolumeSource | None = None
    gce_persistent_disk: drivers.GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: drivers.AWSElasticBlockStoreVolumeSource | None = None
    git_repo: drivers.GitRepoVolumeSource | None = None
    iscsi: drivers.ISCSIVolumeSource | None = None
    glusterfs: drivers.GlusterfsVolumeSource | None = None
    rbd: drivers.RBDVolumeSource | None = None
    flex_volume: drivers.FlexVolumeSource | None = None
    cinder: drivers.CinderVolumeSource | None = None
    cephfs: drivers.CephFSVolumeSource | None = None
    flocker: drivers.FlockerVolumeSource | None = None
    fc: drivers.FCVolumeSource | None = None
    azure_file: drivers.AzureFileVolumeSource | None = None
    azure_disk: drivers.AzureDiskVolumeSource | None = None
    vsphere_volume: drivers.VsphereVirtualDiskVolumeSource | None = None
    quobyte: drivers.QuobyteVolumeSource | None = None
    photon_persistent_disk: drivers.PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: drivers.PortworxVolumeSource | None = None
    scale_io: drivers.ScaleIOVolumeSource | None = msgspec.field(default=None, name="scaleIO")
    storageos: drivers.StorageOSVolumeSource | None = None


class Volume(VolumeSource):
    """A named volume of a pod."""

    name: Required = ""
