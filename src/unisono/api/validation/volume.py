"""Rules of volumes, their claims and storage classes."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.core.persistent_volume import PersistentVolume, StorageClass
from unisono.api.core.volume import DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection
from unisono.api.defaulting.pod import volume_sources
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, required
from unisono.api.validation.container import validate_relative
from unisono.api.validation.meta import by, one_of, validate_amount, validate_resource_map

_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_HIGHEST_MODE = 0o777
_PROJECTIONS = (
    "secret",
    "downward_api",
    "config_map",
    "service_account_token",
    "cluster_trust_bundle",
    "pod_certificate",
)
_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SOURCES = (
    "aws_elastic_block_store",
    "azure_disk",
    "azure_file",
    "cephfs",
    "cinder",
    "csi",
    "fc",
    "flex_volume",
    "flocker",
    "gce_persistent_disk",
    "glusterfs",
    "host_path",
    "iscsi",
    "local",
    "nfs",
    "photon_persistent_disk",
    "portworx_volume",
    "quobyte",
    "rbd",
    "scale_io",
    "storageos",
    "vsphere_volume",
)


def validate_volumes(volumes: list[Volume] | None, path: str) -> Iterator[FieldError]:
    """Names are unique, every volume has at most one source, and the source is complete."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes or ()):
        at = f"{path}[{index}]"
        if not volume.name:
            yield required(f"{at}.name")
        else:
            yield from by(names.dns_label, f"{at}.name", volume.name)
            if volume.name in seen:
                yield duplicate(f"{at}.name", volume.name)
            seen.add(volume.name)
        # No source at all means emptyDir.
        for source in volume_sources(volume)[1:]:
            yield forbidden(f"{at}.{_camel(source)}", "may not specify more than 1 volume type")
        yield from _source(volume, at)


def _camel(attribute: str) -> str:
    first, *rest = attribute.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _source(volume: Volume, path: str) -> Iterator[FieldError]:
    if (host := volume.host_path) is not None:
        if not host.path:
            yield required(f"{path}.hostPath.path")
        elif ".." in host.path.split("/"):
            yield invalid(f"{path}.hostPath.path", host.path, "must not contain '..'")
        yield from one_of(f"{path}.hostPath.type", host.type, _HOST_PATH_TYPES)
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        yield from validate_amount(f"{path}.emptyDir.sizeLimit", volume.empty_dir.size_limit)
    if (secret := volume.secret) is not None:
        if not secret.secret_name:
            yield required(f"{path}.secret.secretName")
        yield from _files(secret.items, f"{path}.secret", secret.default_mode)
    if (config := volume.config_map) is not None:
        if not config.name:
            yield required(f"{path}.configMap.name")
        yield from _files(config.items, f"{path}.configMap", config.default_mode)
    if (downward := volume.downward_api) is not None:
        yield from _mode(downward.default_mode, f"{path}.downwardAPI.defaultMode")
        yield from _downward(downward.items, f"{path}.downwardAPI")
    if (projected := volume.projected) is not None:
        yield from _mode(projected.default_mode, f"{path}.projected.defaultMode")
        for index, projection in enumerate(projected.sources or ()):
            yield from _projection(projection, f"{path}.projected.sources[{index}]")
    if volume.persistent_volume_claim is not None and not volume.persistent_volume_claim.claim_name:
        yield required(f"{path}.persistentVolumeClaim.claimName")
    if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is None:
        yield required(f"{path}.ephemeral.volumeClaimTemplate")
    yield from _external(volume, path)


def _external(volume: Volume, path: str) -> Iterator[FieldError]:
    if (nfs := volume.nfs) is not None:
        if not nfs.server:
            yield required(f"{path}.nfs.server")
        if not nfs.path:
            yield required(f"{path}.nfs.path")
        elif not nfs.path.startswith("/"):
            yield invalid(f"{path}.nfs.path", nfs.path, "must be an absolute path")
    if volume.csi is not None and not volume.csi.driver:
        yield required(f"{path}.csi.driver")


def _files(items: list[KeyToPath] | None, path: str, default_mode: int | None) -> Iterator[FieldError]:
    yield from _mode(default_mode, f"{path}.defaultMode")
    for index, item in enumerate(items or ()):
        at = f"{path}.items[{index}]"
        if not item.key:
            yield required(f"{at}.key")
        if not item.path:
            yield required(f"{at}.path")
        else:
            yield from validate_relative(item.path, f"{at}.path")
        yield from _mode(item.mode, f"{at}.mode")


def _mode(mode: int | None, path: str) -> Iterator[FieldError]:
    if mode is not None and not 0 <= mode <= _HIGHEST_MODE:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _downward(items: list[DownwardAPIVolumeFile] | None, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(items or ()):
        at = f"{path}.items[{index}]"
        if not item.path:
            yield required(f"{at}.path")
        else:
            yield from validate_relative(item.path, f"{at}.path")
        yield from _mode(item.mode, f"{at}.mode")
        if item.field_ref is not None and item.resource_field_ref is not None:
            yield invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
        elif item.field_ref is None and item.resource_field_ref is None:
            yield required(at, "one of fieldRef and resourceFieldRef is required")


def _projection(source: VolumeProjection, path: str) -> Iterator[FieldError]:
    given = [name for name in _PROJECTIONS if getattr(source, name) is not None]
    if not given:
        yield required(path, "must specify a volume source")
    for name in given[1:]:
        yield forbidden(f"{path}.{_camel(name)}", "may not specify more than 1 volume type per source")
    for name, reference in (("secret", source.secret), ("configMap", source.config_map)):
        if reference is not None:
            if not reference.name:
                yield required(f"{path}.{name}.name")
            yield from _files(reference.items, f"{path}.{name}", None)
    if source.downward_api is not None:
        yield from _downward(source.downward_api.items, f"{path}.downwardAPI")
    token = source.service_account_token
    if token is not None:
        if not token.path:
            yield required(f"{path}.serviceAccountToken.path")
        seconds = token.expiration_seconds
        if seconds is not None and seconds < 600:
            at = f"{path}.serviceAccountToken.expirationSeconds"
            yield invalid(at, seconds, "may not specify a duration less than 10 minutes")


def validate_volume(volume: PersistentVolume, old: PersistentVolume | None) -> Iterator[FieldError]:
    """One source, access modes and a capacity; the source stays as it is."""
    spec = volume.spec
    if not spec.access_modes:
        yield required("spec.accessModes")
    for mode in spec.access_modes or ():
        yield from one_of("spec.accessModes", mode, _MODES)
    if not spec.capacity:
        yield required("spec.capacity")
    yield from validate_resource_map(spec.capacity, "spec.capacity")
    yield from one_of(
        "spec.persistentVolumeReclaimPolicy", spec.persistent_volume_reclaim_policy, ("Delete", "Recycle", "Retain")
    )
    yield from one_of("spec.volumeMode", spec.volume_mode, ("Block", "Filesystem"))
    sources = [name for name in _SOURCES if getattr(spec, name) is not None]
    if not sources:
        yield required("spec", "must specify a volume type")
    elif len(sources) > 1:
        yield forbidden("spec", "may not specify more than 1 volume type")
    if spec.local is not None and (spec.node_affinity is None or spec.node_affinity.required is None):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    if old is not None and any(getattr(spec, name) != getattr(old.spec, name) for name in _SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")


def validate_storage_class(storage_class: StorageClass, old: StorageClass | None) -> Iterator[FieldError]:
    """A provisioner and known policies; only whether volumes may grow, and labels, can change."""
    if not storage_class.provisioner:
        yield required("provisioner")
    yield from one_of("reclaimPolicy", storage_class.reclaim_policy, ("Delete", "Retain"))
    yield from one_of("volumeBindingMode", storage_class.volume_binding_mode, ("Immediate", "WaitForFirstConsumer"))
    if old is None:
        return
    for path, name in (
        ("parameters", "parameters"),
        ("provisioner", "provisioner"),
        ("reclaimPolicy", "reclaim_policy"),
        ("volumeBindingMode", "volume_binding_mode"),
    ):
        if getattr(storage_class, name) != getattr(old, name):
            yield forbidden(path, "updates to " + path + " are forbidden.")
