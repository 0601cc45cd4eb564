"""Which volumes a claim may have, and from which nodes (semantics of kube-scheduler 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec
import numpy as np
import numpy.typing as npt

from unisono.api.core import NodeSelector, PersistentVolume, PersistentVolumeClaim, StorageClass
from unisono.api.keys import BIND_COMPLETED, NO_PROVISIONER, REGION_BETA, TOPOLOGY_REGION, TOPOLOGY_ZONE, ZONE_BETA
from unisono.api.quantity import to_int
from unisono.api.selecting import selects
from unisono.api.volumes import WAIT, class_of_claim, class_of_volume, is_given_to, same_mode, stored_bytes
from unisono.cluster.catalogue import Catalogue
from unisono.engine.answers import BoolArray
from unisono.engine.plugins.common.node_selectors import match_selector
from unisono.engine.session.node_view import NodeView

_ZONES = {
    TOPOLOGY_ZONE: TOPOLOGY_ZONE,
    TOPOLOGY_REGION: TOPOLOGY_REGION,
    ZONE_BETA: TOPOLOGY_ZONE,
    REGION_BETA: TOPOLOGY_REGION,
}
"""Zone labels of volumes, with the label that took the place of the old ones."""

Columns = npt.NDArray[np.intp]


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim has its volume; a claim that is Bound without naming one has a directory on its node."""
    if not claim.spec.volume_name:
        return claim.status.phase == "Bound"
    return BIND_COMPLETED in (claim.metadata.annotations or {}) or claim.status.phase == "Bound"


def waits(claim: PersistentVolumeClaim, catalogue: Catalogue) -> bool:
    """Whether the claim's volume is chosen together with the pod's node."""
    storage_class = catalogue.storage_classes.get(class_of_claim(claim))
    return storage_class is not None and storage_class.volume_binding_mode == WAIT and not claim.spec.volume_name


class Misfit(Enum):
    """What keeps a volume from being given to a claim."""

    NONE = ""
    DELETED = "deleted"
    CLASS = "class"
    SIZE = "size"
    MODE = "mode"
    TAKEN = "taken"
    UNAVAILABLE = "unavailable"
    LABELS = "labels"
    ACCESS = "access"
    ATTRIBUTES = "attributes"


def misfit(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Misfit:
    """Why a volume may not be given to a claim, wherever it can be reached from; ``NONE`` where it may."""
    spec, claim_spec = volume.spec, claim.spec
    reference = spec.claim_ref
    if volume.metadata.deletion_timestamp is not None:
        return Misfit.DELETED
    if reference is None and class_of_volume(volume) != class_of_claim(claim):
        return Misfit.CLASS
    if stored_bytes(spec.capacity) < stored_bytes(claim_spec.resources.requests):
        return Misfit.SIZE
    if not same_mode(volume, claim):
        return Misfit.MODE
    if reference is not None:
        return Misfit.NONE if is_given_to(volume, claim) else Misfit.TAKEN
    if volume.status.phase != "Available":
        return Misfit.UNAVAILABLE
    if claim_spec.selector is not None and not selects(claim_spec.selector, volume.metadata.labels or {}):
        return Misfit.LABELS
    if not set(claim_spec.access_modes or ()) <= set(spec.access_modes or ()):
        return Misfit.ACCESS
    same = (spec.volume_attributes_class_name or "") == (claim_spec.volume_attributes_class_name or "")
    return Misfit.NONE if same else Misfit.ATTRIBUTES


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume may be given to a claim, wherever it can be reached from."""
    return misfit(volume, claim) is Misfit.NONE


@dataclass(frozen=True, slots=True)
class Offer:
    """A volume that fits a claim, with the nodes that reach it; best offers first."""

    name: str
    columns: Columns


class VolumeMap:
    """Volumes and nodes of one session; answers per claim and per node selector are kept."""

    def __init__(self, catalogue: Catalogue, nodes: NodeView) -> None:
        self.catalogue = catalogue
        self.nodes = nodes
        self._reach: dict[bytes, BoolArray] = {}
        self._columns: dict[bytes, Columns] = {}
        self._offers: dict[bytes, list[Offer]] = {}

    def reach(self, volume: PersistentVolume) -> BoolArray:
        """``[N]`` nodes that match the volume's node affinity."""
        return self._reach_of(self._required(volume))

    @staticmethod
    def _required(volume: PersistentVolume) -> NodeSelector | None:
        affinity = volume.spec.node_affinity
        return affinity.required if affinity is not None else None

    def _reach_of(self, selector: NodeSelector | None) -> BoolArray:
        key = msgspec.msgpack.encode(selector)
        mask = self._reach.get(key)
        if mask is None:
            everywhere = np.ones(self.nodes.size, dtype=np.bool_)
            mask = self._reach[key] = everywhere if selector is None else match_selector(selector, self.nodes)
        return mask

    def _columns_of(self, selector: NodeSelector | None) -> Columns:
        key = msgspec.msgpack.encode(selector)
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = np.flatnonzero(self._reach_of(selector))
        return columns

    def offers(self, claim: PersistentVolumeClaim) -> list[Offer]:
        """Volumes that fit, those kept for the claim first, then by size and name."""
        spec = claim.spec
        named = (claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
        key = msgspec.msgpack.encode((named if self._kept_for(claim) else None, class_of_claim(claim), spec))
        matching = self._offers.get(key)
        if matching is None:
            fitting = [volume for volume in self.catalogue.volumes.values() if fits(volume, claim)]
            fitting.sort(key=lambda v: (v.spec.claim_ref is None, stored_bytes(v.spec.capacity), v.metadata.name))
            matching = self._offers[key] = [
                Offer(v.metadata.name, self._columns_of(self._required(v))) for v in fitting
            ]
        return matching

    def _kept_for(self, claim: PersistentVolumeClaim) -> bool:
        return any(
            v.spec.claim_ref is not None
            and (v.spec.claim_ref.namespace, v.spec.claim_ref.name) == (claim.metadata.namespace, claim.metadata.name)
            for v in self.catalogue.volumes.values()
        )

    def provisions(self, storage_class: StorageClass) -> BoolArray:
        """``[N]`` nodes for which the class can make a volume."""
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return np.zeros(self.nodes.size, dtype=np.bool_)
        terms = storage_class.allowed_topologies
        if not terms:
            return np.ones(self.nodes.size, dtype=np.bool_)
        mask = np.zeros(self.nodes.size, dtype=np.bool_)
        for term in terms:
            inside = np.ones(self.nodes.size, dtype=np.bool_)
            for requirement in term.match_label_expressions or ():
                inside &= self.with_label(requirement.key, requirement.values or ())
            mask |= inside
        return mask

    def has_space(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> BoolArray:
        """``[N]`` nodes for which the class's driver reports enough space for a claim, if it reports space at all."""
        driver = self.catalogue.csi_drivers.get(storage_class.provisioner)
        size = stored_bytes(claim.spec.resources.requests)
        if driver is None or not driver.spec.storage_capacity or not size:
            return np.ones(self.nodes.size, dtype=np.bool_)
        mask = np.zeros(self.nodes.size, dtype=np.bool_)
        facts = self.nodes.facts
        for capacity in self.catalogue.storage_capacities.values():
            if capacity.storage_class_name != storage_class.metadata.name or capacity.node_topology is None:
                continue
            stated = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
            if stated is None or to_int(stated) < size:
                continue
            topology = capacity.node_topology
            mask |= np.fromiter((selects(topology, one.labels) for one in facts), dtype=np.bool_, count=len(facts))
        return mask

    def with_label(self, key: str, values: Iterable[str]) -> BoolArray:
        """``[N]`` nodes whose label has one of the values."""
        table = self.nodes.table
        codes = [code for value in values if (code := table.label_code(key, value)) >= 0]
        return np.isin(self.nodes.label_codes(key), codes)

    def in_zone(self, volume: PersistentVolume) -> BoolArray:
        """``[N]`` nodes in the volume's zones, by its labels; nodes without zones are in all."""
        labels = volume.metadata.labels or {}
        mask = np.ones(self.nodes.size, dtype=np.bool_)
        for key in sorted(_ZONES.keys() & labels.keys()):
            values = labels[key].split("__")
            mask &= self.with_label(key, values) | (
                (self.nodes.label_codes(key) < 0) & self.with_label(_ZONES[key], values)
            )
        zoned = np.zeros(self.nodes.size, dtype=np.bool_)
        for key in _ZONES:
            zoned |= self.nodes.label_codes(key) >= 0
        return np.asarray(mask | ~zoned)


def first_fits(offers: Sequence[Offer], size: int, taken: Iterable[str], before: Sequence[Sequence[str]]) -> list[str]:
    """``[N]`` for each node the first offer that reaches it, ``""`` where none does.

    Offers in ``taken`` are gone; ``before`` are earlier answers for other claims of the same pod, and their volumes are
    gone on that node only.
    """
    gone = set(taken)
    best = [""] * size
    left = size
    alike: dict[int, int] = {}
    for offer in offers:
        if offer.name in gone:
            continue
        # of volumes that the same nodes reach, more than one per claim of the pod cannot matter
        number = alike[id(offer.columns)] = alike.get(id(offer.columns), 0) + 1
        if number > len(before) + 1:
            continue
        for column in offer.columns.tolist():
            if not best[column] and all(other[column] != offer.name for other in before):
                best[column] = offer.name
                left -= 1
        if not left:
            break
    return best
