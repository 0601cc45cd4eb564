"""Objects that scheduling reads as they are: volumes, claims, their classes, NUMA nodes, reservations, budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from unisono.api import core
from unisono.api.base import Object, ObjectMeta
from unisono.api.groups.topology import Numatopology
from unisono.cluster.budgets import Budgets, PriceLists
from unisono.cluster.calendar import Bookings, NodeChecks, TemporaryQuotas

T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class _Change(Generic[T]):
    """A change that is on its way to the server: what it makes of the object, and whether a state includes it."""

    apply: Callable[[T], T]
    included: Callable[[T], bool]


@dataclass(slots=True)
class _AssumedChanges(Generic[T]):
    """What the server has told of an object, and by their owners the changes on their way."""

    told: T
    changes: dict[str, _Change[T]] = field(default_factory=dict)

    def assumed(self) -> T:
        obj = self.told
        for change in self.changes.values():
            obj = change.apply(obj)
        return obj


class ObjectsByKey(dict[str, T], Generic[T]):
    """Objects of one kind by key, with the changes that are on their way to the server.

    A change counts from `assume` on, also in states that the server tells later and that do not include it yet: other
    writes, such as that of a finalizer, come before it.

    Attributes:
        version: moves with every change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self._assumed: dict[str, _AssumedChanges[T]] = {}

    def put(self, obj: T) -> bool:
        """Add or change an object; False when nothing but its version differs."""
        key = obj.key
        old, assumption = self.get(key), self._assumed.get(key)
        if assumption is not None:
            same = assumption.told.metadata.uid == obj.metadata.uid
            kept = {owner: one for owner, one in assumption.changes.items() if same and not one.included(obj)}
            obj = self._keep(key, obj, kept)
        else:
            self[key] = obj
        changed = old is None or _told(old) != _told(obj)
        self.version += changed
        return changed

    def remove(self, key: str) -> bool:
        """Forget an object; False when it was unknown."""
        self._assumed.pop(key, None)
        removed = self.pop(key, None) is not None
        self.version += removed
        return removed

    def assume(self, key: str, owner: str, apply: Callable[[T], T], included: Callable[[T], bool]) -> None:
        """Let a change of an object count until the server tells a state that includes it, or until `end`.

        Args:
            key: of the object; one that does not exist is not changed.
            owner: who writes it.
            apply: the object with the change; it must leave what the object shows already.
            included: whether a state of the object includes the change.
        """
        if (obj := self.get(key)) is not None:
            assumption = self._assumed.setdefault(key, _AssumedChanges(obj))
            self._keep(key, assumption.told, {**assumption.changes, owner: _Change(apply, included)})

    def written(self, key: str, owner: str, included: Callable[[T], bool]) -> None:
        """The server has taken the change; ``included`` may know from now on by the object's version."""
        assumption = self._assumed.get(key)
        if assumption is not None and (change := assumption.changes.get(owner)) is not None:
            change.included = included
            if included(assumption.told):
                self.end(key, owner)

    def end(self, key: str, owner: str) -> None:
        """The change does not count any more."""
        if (assumption := self._assumed.get(key)) is not None:
            self._keep(
                key, assumption.told, {one: change for one, change in assumption.changes.items() if one != owner}
            )

    def _keep(self, key: str, told: T, changes: dict[str, _Change[T]]) -> T:
        assumption = _AssumedChanges(told, changes)
        if changes:
            self._assumed[key] = assumption
        else:
            self._assumed.pop(key, None)
        self[key] = obj = assumption.assumed()
        self.version += 1
        return obj

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

    volumes: ObjectsByKey[core.PersistentVolume] = msgspec.field(default_factory=ObjectsByKey)
    volume_claims: ObjectsByKey[core.PersistentVolumeClaim] = msgspec.field(default_factory=ObjectsByKey)
    storage_classes: ObjectsByKey[core.StorageClass] = msgspec.field(default_factory=ObjectsByKey)
    csi_nodes: ObjectsByKey[core.CSINode] = msgspec.field(default_factory=ObjectsByKey)
    csi_drivers: ObjectsByKey[core.CSIDriver] = msgspec.field(default_factory=ObjectsByKey)
    storage_capacities: ObjectsByKey[core.CSIStorageCapacity] = msgspec.field(default_factory=ObjectsByKey)
    volume_attachments: ObjectsByKey[core.VolumeAttachment] = msgspec.field(default_factory=ObjectsByKey)
    device_claims: ObjectsByKey[core.ResourceClaim] = msgspec.field(default_factory=ObjectsByKey)
    device_slices: ObjectsByKey[core.ResourceSlice] = msgspec.field(default_factory=ObjectsByKey)
    device_classes: ObjectsByKey[core.DeviceClass] = msgspec.field(default_factory=ObjectsByKey)
    numa_topologies: ObjectsByKey[Numatopology] = msgspec.field(default_factory=ObjectsByKey)
    bookings: Bookings = msgspec.field(default_factory=Bookings)
    temporary_quotas: TemporaryQuotas = msgspec.field(default_factory=TemporaryQuotas)
    budgets: Budgets = msgspec.field(default_factory=Budgets)
    prices: PriceLists = msgspec.field(default_factory=PriceLists)
    node_checks: NodeChecks = msgspec.field(default_factory=NodeChecks)

    def shelves(self) -> dict[str, ObjectsByKey[Any] | Bookings | TemporaryQuotas | Budgets | PriceLists | NodeChecks]:
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
            "Reservation": self.bookings,
            "TemporaryQuota": self.temporary_quotas,
            "Budget": self.budgets,
            "PriceList": self.prices,
            "NodeCheck": self.node_checks,
        }
