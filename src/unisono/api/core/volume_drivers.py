"""Volume sources of storage systems outside the cluster."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Int32, Required
from unisono.api.core.refs import LocalObjectReference


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
