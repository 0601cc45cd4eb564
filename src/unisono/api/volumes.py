"""What volumes and claims say of each other: annotations, finalizers, classes, and whether one may have the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from unisono.api.core import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume
from unisono.api.keys import CLASS_BETA, DEFAULT_CLASS, DEFAULT_CLASS_BETA
from unisono.api.quantity import parse_quantity
from unisono.api.selecting import selects

PROVISIONER: Final = "unisono.io/folder"
"""Makes volumes that are folders of a node."""
VOLUME_NODE: Final = "unisono.io/volume-node"
"""On a PersistentVolume: the node whose folder it is."""

WAIT: Final = "WaitForFirstConsumer"
_SHARED_MODES = frozenset({"ReadOnlyMany", "ReadWriteMany"})


def class_of_claim(claim: PersistentVolumeClaim) -> str:
    """Name of the claim's class; empty when it has none."""
    return (claim.metadata.annotations or {}).get(CLASS_BETA) or claim.spec.storage_class_name or ""


def has_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim says what class it wants; an empty name says that it wants none."""
    return claim.spec.storage_class_name is not None or CLASS_BETA in (claim.metadata.annotations or {})


def class_of_volume(volume: PersistentVolume) -> str:
    """Name of the volume's class; empty when it has none."""
    return (volume.metadata.annotations or {}).get(CLASS_BETA) or volume.spec.storage_class_name or ""


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The class of claims that name none: of several defaults the newest, then the first by name."""
    defaults = [each for each in classes if _is_default(each.metadata.annotations or {})]
    defaults.sort(key=lambda each: each.metadata.name)
    return max(defaults, key=lambda each: each.metadata.creation_timestamp or "", default=None)


def _is_default(annotations: Mapping[str, str]) -> bool:
    return "true" in (annotations.get(DEFAULT_CLASS), annotations.get(DEFAULT_CLASS_BETA))


def is_shared(claim: PersistentVolumeClaim) -> bool:
    """Whether pods of several nodes may use the claim at once."""
    return bool(_SHARED_MODES & set(claim.spec.access_modes or ()))


def provisioned_name(claim: PersistentVolumeClaim) -> str:
    """Name of the volume that a provisioner makes for a claim."""
    return f"pvc-{claim.metadata.uid}"


def stored_bytes(amounts: Mapping[str, object] | None) -> int:
    """Bytes of ``storage``; 0 when nothing is said."""
    given = (amounts or {}).get("storage")
    return int(parse_quantity(given)) if isinstance(given, (str, int, float)) else 0


def is_given_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names the claim: this very one, or one of its name before it was bound."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return not reference.uid or reference.uid == meta.uid


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim cannot have a volume that it asks for by name; empty when it can."""
    spec, requested = volume.spec, claim.spec
    if volume.metadata.deletion_timestamp:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if stored_bytes(spec.capacity) < stored_bytes(requested.resources.requests):
        return "requested PV is too small"
    if class_of_volume(volume) != class_of_claim(claim):
        return "storageClassName does not match"
    if (spec.volume_attributes_class_name or "") != (requested.volume_attributes_class_name or ""):
        return "volumeAttributesClassName does not match"
    if not same_mode(volume, claim):
        return "incompatible volumeMode"
    if not set(requested.access_modes or ()) <= set(spec.access_modes or ()):
        return "incompatible accessMode"
    return ""


def same_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether both are file systems, or both block devices."""
    return (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")


def best_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, kept_only: bool
) -> PersistentVolume | None:
    """The volume that an unbound claim gets: one that is kept for it, else the smallest that fits, then by name.

    Args:
        claim: a claim that names no volume.
        volumes: all volumes.
        kept_only: take only one that names the claim: the scheduler chooses among the others.
    """
    fitting: list[PersistentVolume] = []
    for volume in volumes:
        if is_given_to(volume, claim):
            if (
                volume.metadata.deletion_timestamp is None
                and same_mode(volume, claim)
                and stored_bytes(volume.spec.capacity) >= stored_bytes(claim.spec.resources.requests)
            ):
                return volume
        elif not kept_only and volume.spec.claim_ref is None and volume.status.phase == "Available":
            selector = claim.spec.selector
            if (selector is None or selects(selector, volume.metadata.labels)) and not mismatch(volume, claim):
                fitting.append(volume)
    return min(fitting, key=lambda each: (stored_bytes(each.spec.capacity), each.metadata.name), default=None)


def claim_name(pod_name: str, volume: Volume) -> str | None:
    """The claim behind a pod's volume, for an ephemeral one ``POD-VOLUME``; None when there is none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod_name}-{volume.name}" if volume.ephemeral is not None else None


def claim_keys(pod: Pod) -> list[str]:
    """Index function: keys of the claims behind the pod's volumes."""
    meta = pod.metadata
    names = (claim_name(meta.name, volume) for volume in pod.spec.volumes or ())
    return [f"{meta.namespace}/{name}" for name in names if name is not None]
