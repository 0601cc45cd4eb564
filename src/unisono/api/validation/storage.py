"""Rules of volumes and storage classes."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core.persistent_volume import PersistentVolume, StorageClass
from unisono.api.field_error import FieldError, forbidden, required
from unisono.api.validation.meta import one_of
from unisono.api.validation.quantities import validate_resource_map

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
