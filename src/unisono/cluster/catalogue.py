"""Objects that scheduling reads as they are: volumes, device claims, their classes, and the NUMA nodes of nodes."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
    VolumeAttachment,
)
from unisono.api.nodeinfo import Numatopology

T = TypeVar("T", bound=Object)


class ObjectsByKey(dict[str, T], Generic[T]):
    """Objects of one kind by key."""

    def put(self, obj: T) -> bool:
        """Add or change an object; False when nothing but its version differs."""
        old = self.get(obj.key)
        self[obj.key] = obj
        return old is None or _told(old) != _told(obj)

    def remove(self, key: str) -> bool:
        """Forget an object; False when it was unknown."""
        return self.pop(key, None) is not None

    def known(self) -> list[str]:
        """All keys."""
        return list(self)


def _told(obj: Object) -> tuple[Any, ...]:
    """What of an object may matter."""
    meta = obj.metadata
    parts = [getattr(obj, name) for name in obj.__struct_fields__ if name not in ("metadata", "api_version", "kind")]
    kept = ObjectMeta(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        deletion_timestamp=meta.deletion_timestamp,
    )
    return (kept, *parts)


class Catalogue(msgspec.Struct):
    """All shelves of one cluster; namespaced objects by ``namespace/name``."""

    volumes: ObjectsByKey[PersistentVolume] = msgspec.field(default_factory=ObjectsByKey)
    volume_claims: ObjectsByKey[PersistentVolumeClaim] = msgspec.field(default_factory=ObjectsByKey)
    storage_classes: ObjectsByKey[StorageClass] = msgspec.field(default_factory=ObjectsByKey)
    csi_nodes: ObjectsByKey[CSINode] = msgspec.field(default_factory=ObjectsByKey)
    csi_drivers: ObjectsByKey[CSIDriver] = msgspec.field(default_factory=ObjectsByKey)
    storage_capacities: ObjectsByKey[CSIStorageCapacity] = msgspec.field(default_factory=ObjectsByKey)
    volume_attachments: ObjectsByKey[VolumeAttachment] = msgspec.field(default_factory=ObjectsByKey)
    device_claims: ObjectsByKey[ResourceClaim] = msgspec.field(default_factory=ObjectsByKey)
    device_slices: ObjectsByKey[ResourceSlice] = msgspec.field(default_factory=ObjectsByKey)
    device_classes: ObjectsByKey[DeviceClass] = msgspec.field(default_factory=ObjectsByKey)
    numa_topologies: ObjectsByKey[Numatopology] = msgspec.field(default_factory=ObjectsByKey)

    def shelves(self) -> dict[str, ObjectsByKey[Any]]:
        """Shelves by the kind that stands on them."""
        return {
            "PersistentVolume": self.volumes,
            "PersistentVolumeClaim": self.volume_claims,
            "StorageClass": self.storage_classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.csi_drivers,
            "CSIStorageCapacity": self.storage_capacities,
            "VolumeAttachment": self.volume_attachments,
            "ResourceClaim": self.device_claims,
            "ResourceSlice": self.device_slices,
            "DeviceClass": self.device_classes,
            "Numatopology": self.numa_topologies,
        }
