"""Volumes of pods: zones, CSI limits, claims for one pod, binding of claims (semantics of kube-scheduler 1.36).

A claim whose class waits for its first consumer gets its volume together with the pod's node. What has been chosen in a
session is kept in the `VolumeLedger`, so that no volume is given twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unisono.api.core import PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from unisono.api.keys import SELECTED_NODE
from unisono.api.messages import volume_claim_not_found
from unisono.api.volumes import class_of_claim, stored_bytes
from unisono.cluster.podclass import PodClass
from unisono.engine.answers import BoolArray, Reason, Veto
from unisono.engine.decisions import VolumeBind
from unisono.engine.plugins.predicates.volume_match import VolumeMap, first_fits, is_bound, waits
from unisono.engine.session.domains import Counts
from unisono.engine.session.session import Session

NO_SPACE = Reason("node(s) did not have enough free storage", unresolvable=True)
NO_VOLUME = Reason("node(s) didn't find available persistent volumes to bind", unresolvable=True)
OUT_OF_REACH = Reason("node(s) didn't match PersistentVolume's node affinity", unresolvable=True)
LOST = Reason("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", unresolvable=True)
UNBOUND = Reason("pod has unbound immediate PersistentVolumeClaims", unresolvable=True)
NO_ZONE = Reason("node(s) had no available volume zone", unresolvable=True)
IN_USE = Reason("a pod is using a PersistentVolumeClaim with access mode ReadWriteOncePod", unresolvable=True)
TOO_MANY = Reason("node(s) exceed max volume count")

Volume = tuple[str, str]
"""(CSI driver, volume handle or claim)."""


@dataclass(slots=True)
class Choice:
    """What a claim will get: a volume by name, or (empty) one that is made for the node; users in this session."""

    volume: str
    column: int
    users: int = 0


@dataclass(slots=True)
class Source:
    """Something a stamp can watch."""

    version: int = 0


@dataclass(slots=True)
class Attached:
    """Volumes of one CSI driver: how many are on each node, who uses them, and how many a node may have."""

    limits: Counts
    number: Counts
    users: dict[str, dict[int, int]] = field(default_factory=dict)

    def move(self, handle: str, column: int, sign: int) -> None:
        """A pod with the volume came or went; a volume counts once per node."""
        users = self.users.setdefault(handle, {})
        before = users.get(column, 0)
        users[column] = before + sign
        self.number[column] += int(before + sign > 0) - int(before > 0)


class VolumeLedger:
    """Claims of a session: what they have, and what they will get.

    Args:
        session: the session.
        limits, zones, binding: which of the three filters are on.
        timeout: seconds that the binder may take.
    """

    def __init__(self, session: Session, *, limits: bool, zones: bool, binding: bool, timeout: float) -> None:
        self.session = session
        self.catalogue = session.snapshot.catalogue
        self.map = VolumeMap(self.catalogue, session.nodes)
        self.limits, self.zones, self.binding, self.timeout = limits, zones, binding, timeout
        self.choices: dict[str, Choice] = {}
        self.changes = Source()
        self._attached: dict[str, Attached] | None = None
        self._placed: Counter[str] = Counter()
        self._users: Counter[str] | None = None
        # Where nothing makes or holds volumes, claims are directories of the node that their pod comes to.
        self.served = bool(self.catalogue.storage_classes or self.catalogue.volumes)

    # ---- what a claim is

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """The claim, None when it does not exist."""
        return self.catalogue.volume_claims.get(key)

    def volume_of(self, key: str) -> PersistentVolume | None:
        """The volume that a claim has or was chosen for it."""
        claim, choice = self.claim(key), self.choices.get(key)
        name = choice.volume if choice is not None else (claim.spec.volume_name or "" if claim is not None else "")
        return self.catalogue.volumes.get(name)

    def csi_of(self, key: str) -> Volume | None:
        """Driver and handle; of a claim without a volume the provisioner, and the claim itself."""
        volume, claim = self.volume_of(key), self.claim(key)
        if volume is not None:
            csi = volume.spec.csi
            return (csi.driver, csi.volume_handle) if csi is not None else None
        storage_class = self.catalogue.storage_classes.get(class_of_claim(claim) if claim is not None else "")
        return (storage_class.provisioner, f"claim {key}") if storage_class is not None else None

    def open_claims(self, pod_class: PodClass) -> list[str]:
        """Claims of a class that get their volume with the node, smallest first."""
        claims = [
            (stored_bytes(claim.spec.resources.requests), key)
            for key in pod_class.volumes
            if (claim := self.claim(key)) is not None
            and key not in self.choices
            and not is_bound(claim)
            and waits(claim, self.catalogue)
        ]
        return [key for _, key in sorted(claims)]

    def taken(self) -> set[str]:
        """Volumes that were chosen in this session."""
        return {choice.volume for choice in self.choices.values() if choice.volume}

    # ---- claims for one pod

    def for_one_pod(self, key: str) -> bool:
        """Whether at most one pod may use a claim."""
        claim = self.claim(key)
        return claim is not None and "ReadWriteOncePod" in (claim.spec.access_modes or ())

    def in_use(self, key: str) -> bool:
        """Whether a pod of the cluster, also a terminating one, or of this session uses a claim."""
        if self._users is None:
            self._users = Counter()
            for claims in self.session.snapshot.affinity_index.volume_users.values():
                self._users.update(claims)
        return self._users[key] > 0 or self._placed[key] > 0

    # ---- following the session

    def placed(self, pod_class: PodClass, columns: Sequence[int]) -> None:
        """Pods came: choose volumes for claims that have none yet."""
        self.changes.version += 1
        for column in columns:
            self._placed.update(pod_class.volumes)
            for key, volume in zip(self.open_claims(pod_class), self.choose(pod_class, column), strict=True):
                self.choices[key] = Choice(volume, column)
            for key in pod_class.volumes:
                if key in self.choices:
                    self.choices[key].users += 1
            self._attach(pod_class, column, 1)

    def removed(self, pod_class: PodClass, columns: Sequence[int]) -> None:
        """Pods went: claims that no other pod uses give back what was chosen."""
        self.changes.version += 1
        for column in columns:
            self._attach(pod_class, column, -1)
            self._placed.subtract(pod_class.volumes)
            for key in pod_class.volumes:
                choice = self.choices.get(key)
                if choice is None:
                    continue
                choice.users -= 1
                if choice.users <= 0:
                    del self.choices[key]

    def choose(self, pod_class: PodClass, column: int) -> list[str]:
        """Volumes for the open claims on one node; ``""`` where one is to be made."""
        rows: list[list[str]] = []
        for key in self.open_claims(pod_class):
            claim = self.claim(key)
            assert claim is not None
            if SELECTED_NODE in (claim.metadata.annotations or {}):
                rows.append([""] * self.session.nodes.size)
                continue
            rows.append(first_fits(self.map.offers(claim), self.session.nodes.size, self.taken(), rows))
        return [row[column] for row in rows]

    def binds(self, pod_class: PodClass, column: int) -> tuple[VolumeBind, ...]:
        """What must be written before a pod of the class can run on a node."""
        volume_binds = []
        for key in pod_class.volumes:
            choice, claim = self.choices.get(key), self.claim(key)
            if choice is None or claim is None:
                continue
            volume_binds.append(
                VolumeBind(
                    claim.metadata.namespace or "",
                    claim.metadata.name,
                    claim.metadata.uid or "",
                    choice.volume,
                    self.session.snapshot.nodes.names[column],
                    self.timeout,
                )
            )
        return tuple(volume_binds)

    # ---- volumes on nodes

    def attached(self, driver: str) -> Attached | None:
        """Volumes of a driver per node; None when no node limits them."""
        if self._attached is None:
            self._attached = self._count()
        return self._attached.get(driver)

    def _count(self) -> dict[str, Attached]:
        table = self.session.snapshot.nodes
        by_driver: dict[str, Attached] = {}
        for name, csi_node in self.catalogue.csi_nodes.items():
            column = table.index.get(name)
            for driver in (csi_node.spec.drivers or ()) if column is not None else ():
                if driver.allocatable is None or driver.allocatable.count is None:
                    continue
                book = by_driver.get(driver.name)
                if book is None:
                    none = np.full(len(table), np.iinfo(np.int64).max, dtype=np.int64)
                    book = by_driver[driver.name] = Attached(none, np.zeros(len(table), dtype=np.int64))
                book.limits[column] = driver.allocatable.count
        for node, claims in self.session.snapshot.affinity_index.volume_users.items() if by_driver else ():
            column = table.index.get(node)
            for key, number in claims.items() if column is not None else ():
                volume = self.csi_of(key)
                if volume is not None and volume[0] in by_driver and column is not None:
                    by_driver[volume[0]].move(volume[1], column, number)
        for attachment in self.catalogue.volume_attachments.values() if by_driver else ():
            self._count_attachment(attachment, by_driver)
        return by_driver

    def _count_attachment(self, attachment: VolumeAttachment, books: dict[str, Attached]) -> None:
        """A volume that is attached takes its place until it is detached, whether or not a pod still uses it."""
        spec = attachment.spec
        book, column = books.get(spec.attacher), self.session.snapshot.nodes.index.get(spec.node_name)
        volume = self.catalogue.volumes.get(spec.source.persistent_volume_name or "")
        if book is not None and column is not None and volume is not None and volume.spec.csi is not None:
            book.move(volume.spec.csi.volume_handle, column, 1)

    def _attach(self, pod_class: PodClass, column: int, sign: int) -> None:
        if not self.limits or not self.catalogue.csi_nodes:
            return
        for key in pod_class.volumes:
            volume = self.csi_of(key)
            book = self.attached(volume[0]) if volume is not None else None
            if volume is not None and book is not None:
                book.move(volume[1], column, sign)


class VolumeFilter:
    """Filters of one class with claims.

    Attributes:
        sources: what the answer depends on.
        self_affecting: claims may be bound by the first pod of the class.
    """

    self_affecting = True

    def __init__(self, pod_class: PodClass, ledger: VolumeLedger) -> None:
        self.pod_class = pod_class
        self.ledger = ledger
        self.sources = [ledger.changes]
        self._size = ledger.session.nodes.size

    def _every(self, text: str) -> list[Veto]:
        return [Veto(np.ones(self._size, dtype=np.bool_), Reason(text, unresolvable=True))]

    def vetoes(self) -> list[Veto]:
        """Limits, zones and binding, over all nodes."""
        ledger = self.ledger
        if any(ledger.for_one_pod(key) and ledger.in_use(key) for key in self.pod_class.volumes):
            return [Veto(np.ones(self._size, dtype=np.bool_), IN_USE)]
        broken = self._broken() if ledger.binding else []
        if broken:
            return broken
        vetoes = self._limits() if ledger.limits else []
        vetoes += self._zones() if ledger.zones else []
        return vetoes + (self._binding() if ledger.binding else [])

    def _broken(self) -> list[Veto]:
        """Reasons that hold on every node."""
        ledger = self.ledger
        for key in self.pod_class.volumes:
            claim = ledger.claim(key)
            name = key.partition("/")[2]
            if claim is None:
                return self._every(volume_claim_not_found(name))
            if claim.metadata.deletion_timestamp is not None:
                return self._every(f'persistentvolumeclaim "{name}" is being deleted')
            if claim.status.phase == "Lost":
                missing = claim.spec.volume_name or ""
                return self._every(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{missing}"')
            settled = is_bound(claim) or key in ledger.choices or waits(claim, ledger.catalogue)
            if not settled and ledger.served:
                return [Veto(np.ones(self._size, dtype=np.bool_), UNBOUND)]
        return []

    def _limits(self) -> list[Veto]:
        handles_by_driver: dict[str, set[str]] = {}
        for key in self.pod_class.volumes:
            volume = self.ledger.csi_of(key)
            if volume is not None:
                handles_by_driver.setdefault(volume[0], set()).add(volume[1])
        over = np.zeros(self._size, dtype=np.bool_)
        for driver, handles in handles_by_driver.items():
            book = self.ledger.attached(driver)
            if book is None:
                continue
            fresh = np.full(self._size, len(handles), dtype=np.int64)
            for handle in handles:
                for column, users in book.users.get(handle, {}).items():
                    fresh[column] -= users > 0
            over |= (fresh > 0) & (book.number + fresh > book.limits)
        return [Veto(over, TOO_MANY)] if over.any() else []

    def _zones(self) -> list[Veto]:
        outside = np.zeros(self._size, dtype=np.bool_)
        for key in self.pod_class.volumes:
            volume = self.ledger.volume_of(key)
            if volume is not None:
                outside |= ~self.ledger.map.in_zone(volume)
        return [Veto(outside, NO_ZONE)] if outside.any() else []

    def _binding(self) -> list[Veto]:
        ledger, nodes = self.ledger, self._size
        lost, far, none = (np.zeros(nodes, dtype=np.bool_) for _ in range(3))
        for key in self.pod_class.volumes:
            claim, choice = ledger.claim(key), ledger.choices.get(key)
            assert claim is not None
            name = choice.volume if choice is not None else claim.spec.volume_name or ""
            if choice is not None and not name:
                none |= np.arange(nodes) != choice.column  # a volume that is being made for one node
            elif name:
                volume = ledger.catalogue.volumes.get(name)
                if volume is None:
                    lost[:] = True
                else:
                    far |= ~ledger.map.reach(volume)
        possible, small = self._choosable()
        none |= ~possible
        return [
            Veto(mask, reason)
            for mask, reason in ((lost, LOST), (far, OUT_OF_REACH), (none, NO_VOLUME), (small & ~none, NO_SPACE))
            if mask.any()
        ]

    def _choosable(self) -> tuple[BoolArray, BoolArray]:
        """Nodes on which every open claim finds a volume or can have one made, and those that lack space for it."""
        ledger = self.ledger
        mask, small = np.ones(self._size, dtype=np.bool_), np.zeros(self._size, dtype=np.bool_)
        rows: list[list[str]] = []
        for key in ledger.open_claims(self.pod_class):
            claim = ledger.claim(key)
            assert claim is not None
            storage_class = ledger.catalogue.storage_classes[class_of_claim(claim)]
            provisions = ledger.map.provisions(storage_class)
            selected = (claim.metadata.annotations or {}).get(SELECTED_NODE)
            if selected is not None:
                rows.append([""] * self._size)
                only = ledger.session.snapshot.nodes.index.get(selected, -1)
                mask &= provisions & (np.arange(self._size) == only)
                small |= ~ledger.map.has_space(claim, storage_class)
                continue
            row = first_fits(ledger.map.offers(claim), self._size, ledger.taken(), rows)
            rows.append(row)
            at_hand = np.array([bool(name) for name in row], dtype=np.bool_)
            mask &= at_hand | provisions
            small |= ~at_hand & ~ledger.map.has_space(claim, storage_class)
        return mask, small
