"""Defaults of volumes."""

from __future__ import annotations

import msgspec

from unisono.api.core.volume import EmptyDirVolumeSource, ProjectedVolumeSource, Volume, VolumeSource
from unisono.api.defaulting.quantities import canonical_map, canonical_or_same

_FILE_MODE = 0o644
_SOURCES = tuple(field.name for field in msgspec.structs.fields(VolumeSource))


def volume_sources(volume: VolumeSource) -> list[str]:
    """Attribute names of the sources that a volume has (one, when it is valid)."""
    return [name for name in _SOURCES if getattr(volume, name) is not None]


def default_volume(volume: Volume) -> None:
    """A volume without a source is an emptyDir; files get mode 0644."""
    if not volume_sources(volume):
        volume.empty_dir = EmptyDirVolumeSource()
    for source in (volume.secret, volume.config_map, volume.downward_api, volume.projected):
        if source is not None and source.default_mode is None:
            source.default_mode = _FILE_MODE
    if volume.downward_api is not None:
        for item in volume.downward_api.items or ():
            if item.field_ref is not None:
                item.field_ref.api_version = item.field_ref.api_version or "v1"
    if volume.projected is not None:
        _default_projected(volume.projected)
    if volume.host_path is not None and volume.host_path.type is None:
        volume.host_path.type = ""
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        volume.empty_dir.size_limit = canonical_or_same(volume.empty_dir.size_limit)
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
        claim = volume.ephemeral.volume_claim_template.spec
        claim.volume_mode = claim.volume_mode or "Filesystem"
        canonical_map(claim.resources.requests)
    _default_driver(volume)


def _default_projected(projected: ProjectedVolumeSource) -> None:
    for source in projected.sources or ():
        token = source.service_account_token
        if token is not None and token.expiration_seconds is None:
            token.expiration_seconds = 3600
        for item in (source.downward_api.items if source.downward_api else None) or ():
            if item.field_ref is not None:
                item.field_ref.api_version = item.field_ref.api_version or "v1"


def _default_driver(volume: Volume) -> None:
    if volume.iscsi is not None:
        volume.iscsi.iscsi_interface = volume.iscsi.iscsi_interface or "default"
    if (rbd := volume.rbd) is not None:
        rbd.pool, rbd.user = rbd.pool or "rbd", rbd.user or "admin"
        rbd.keyring = rbd.keyring or "/etc/ceph/keyring"
    if (scale := volume.scale_io) is not None:
        scale.storage_mode, scale.fs_type = scale.storage_mode or "ThinProvisioned", scale.fs_type or "xfs"
    if (azure := volume.azure_disk) is not None:
        azure.caching_mode, azure.kind = azure.caching_mode or "ReadWrite", azure.kind or "Shared"
        azure.fs_type = azure.fs_type or "ext4"
        azure.read_only = bool(azure.read_only)
