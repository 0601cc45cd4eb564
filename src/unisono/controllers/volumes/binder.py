"""Binds claims to volumes, and asks provisioners for volumes that are not there.

On a cluster kube-controller-manager does this. The scheduler chooses among volumes, or the node for which one is made,
where the claim's class waits for its first consumer; here that choice is carried out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from unisono.api.keys import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DEFAULT_CLASS,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    STORAGE_PROVISIONER_BETA,
)
from unisono.api.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from unisono.api.volumes import PROVISIONER, WAIT, claim_keys
from unisono.controllers.indexing import index
from unisono.controllers.notices import Announcer, Notice
from unisono.controllers.patching import to_json
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten, write_status
from unisono.controllers.volumes.decide import (
    Bind,
    ClaimStep,
    Classify,
    Lose,
    Provision,
    Reselect,
    grown,
    next_of_claim,
)
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

POD_INDEX = "pods-of-claim"
STANDARD = "standard"


class ClaimController(Controller):
    """Brings every claim to its volume; one at a time, so that no volume is given twice."""

    name = "persistentvolume-binder"
    workers = 1

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._announcer = Announcer(recorder)
        self._claims_written: LastWritten[PersistentVolumeClaim] = LastWritten()
        self._volumes_written: LastWritten[PersistentVolume] = LastWritten()
        self._pending: set[str] = set()

    def setup(self, context: Context) -> None:
        """Watch claims, and what those that wait may wait for."""
        self._client = context.client
        self._claims = context.watch(PERSISTENT_VOLUME_CLAIMS)
        self._announcer.forget_deleted(self._claims)
        self._volumes = context.watch(PERSISTENT_VOLUMES, self._claims_of_volume)
        self._classes = context.watch(STORAGE_CLASSES, lambda _: sorted(self._pending))
        self._nodes = context.watch(NODES, lambda _: sorted(self._pending), when=_came_went_or_turned)
        self._pods = context.watch(PODS, claim_keys, when=_waits)
        index(self._pods, POD_INDEX, claim_keys)

    async def start(self) -> None:
        """Make the storage class that every control plane of one machine has."""
        try:
            await self._client.create(STORAGE_CLASSES, standard_class())
        except AlreadyExists:
            return

    async def reconcile(self, key: str) -> float | None:
        """Take the claim's next step."""
        claim = self._claims_written.newest(key, self._claims.get(key))
        if claim is None:
            self._pending.discard(key)
            return None
        annotations = claim.metadata.annotations or {}
        if claim.status.phase == "Bound" and not claim.spec.volume_name and BIND_COMPLETED not in annotations:
            # A folder of its node, from a time or a cluster without volumes.
            return None
        if claim.metadata.deletion_timestamp and not claim.spec.volume_name:
            self._pending.discard(key)
            return None
        volumes: dict[str, PersistentVolume] = {each.key: self._volume(each) for each in self._volumes.items()}
        classes: dict[str, StorageClass] = {each.metadata.name: each for each in self._classes.items()}
        nodes: dict[str, Node] = {each.metadata.name: each for each in self._nodes.items()}
        step = next_of_claim(claim, volumes, classes, nodes, self._waiting(key))
        (self._pending.discard if isinstance(step, Bind | Lose) else self._pending.add)(key)
        try:
            await self._carry_out(claim, step)
        except NotFound:
            return None
        return None

    async def _carry_out(self, claim: PersistentVolumeClaim, step: ClaimStep) -> None:
        if isinstance(step, Bind):
            await self._bind(claim, step.volume)
        elif isinstance(step, Classify):
            await self._patch(claim, {"spec": {"storageClassName": step.name}})
        elif isinstance(step, Provision):
            notes = {STORAGE_PROVISIONER: step.provisioner, STORAGE_PROVISIONER_BETA: step.provisioner}
            if step.node is not None:
                notes[SELECTED_NODE] = step.node
            self._announcer.tell(claim, [step.notice])
            await self._annotate(claim, notes)
        elif isinstance(step, Reselect):
            self._announcer.tell(claim, [step.notice])
            await self._annotate(claim, {SELECTED_NODE: None})
        elif isinstance(step, Lose):
            if claim.status.phase != "Lost":
                await self._phase(claim, "Lost", None)
                self._announcer.tell(claim, [step.notice])
        else:
            if step.notice is not None:
                self._announcer.tell(claim, [step.notice])
            await self._phase(claim, "Pending", None)

    async def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Four writes, each of which a later look completes: the volume names the claim, then the claim its volume."""
        reference = volume.spec.claim_ref
        if reference is None or reference.uid != claim.metadata.uid:
            patch: dict[str, Any] = {"spec": {"claimRef": to_json(_reference(claim))}}
            if reference is None:
                patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
            volume = await self._patch_volume(volume, patch)
        if volume.status.phase != "Bound":
            status = msgspec.structs.replace(volume.status, phase="Bound", message=None, reason=None)
            volume = await write_status(self._client, PERSISTENT_VOLUMES, volume, status)
            self._volumes_written.keep(volume)
        annotations = claim.metadata.annotations or {}
        if not claim.spec.volume_name or BIND_COMPLETED not in annotations:
            notes = {BIND_COMPLETED: "yes"}
            patch = {"metadata": {"annotations": notes}}
            if not claim.spec.volume_name:
                notes[BOUND_BY_CONTROLLER] = "yes"
                patch["spec"] = {"volumeName": volume.metadata.name}
            claim = await self._patch(claim, patch)
        if claim.status.phase == "Bound" and grown(claim, volume):
            await self._grow(claim, volume)
        else:
            await self._phase(claim, "Bound", volume)

    async def _grow(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """A folder has no size of its own: it grows by saying so."""
        if (volume.metadata.annotations or {}).get(PROVISIONED_BY) != PROVISIONER:
            text = "waiting for an external controller to expand this PVC"
            self._announcer.tell(claim, [Notice("Normal", "ExternalExpanding", text, once=text)])
            return
        amount = to_json(claim.spec.resources)["requests"]["storage"]
        await self._patch_volume(volume, {"spec": {"capacity": {"storage": amount}}})
        status = msgspec.structs.replace(claim.status, capacity={**(claim.status.capacity or {}), "storage": amount})
        self._claims_written.keep(await write_status(self._client, PERSISTENT_VOLUME_CLAIMS, claim, status))
        self._recorder.event(claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _phase(self, claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None) -> None:
        status = msgspec.structs.replace(claim.status, phase=phase, access_modes=None)
        if volume is not None:
            status.access_modes = volume.spec.access_modes
            if claim.status.phase != phase:
                status.capacity = volume.spec.capacity
                status.current_volume_attributes_class_name = volume.spec.volume_attributes_class_name
        self._claims_written.keep(await write_status(self._client, PERSISTENT_VOLUME_CLAIMS, claim, status))

    async def _annotate(self, claim: PersistentVolumeClaim, notes: dict[str, Any]) -> None:
        present = claim.metadata.annotations or {}
        changed = {key: value for key, value in notes.items() if present.get(key) != value}
        if changed:
            await self._patch(claim, {"metadata": {"annotations": changed}})

    async def _patch(self, claim: PersistentVolumeClaim, patch: dict[str, Any]) -> PersistentVolumeClaim:
        meta = claim.metadata
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}}
        made = await self._client.patch(PERSISTENT_VOLUME_CLAIMS, meta.name, guarded, namespace=meta.namespace)
        self._claims_written.keep(made)
        return made

    async def _patch_volume(self, volume: PersistentVolume, patch: dict[str, Any]) -> PersistentVolume:
        meta = volume.metadata
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}}
        made = await self._client.patch(PERSISTENT_VOLUMES, meta.name, guarded)
        self._volumes_written.keep(made)
        return made

    def _volume(self, cached: PersistentVolume) -> PersistentVolume:
        return self._volumes_written.newest(cached.key, cached) or cached

    def _waiting(self, key: str) -> list[str]:
        pods = self._pods.by_index(POD_INDEX, key)
        return [each.metadata.name for each in pods if not each.spec.node_name]

    def _claims_of_volume(self, volume: PersistentVolume) -> list[str]:
        """The claim that the volume names; all that wait where it names none."""
        reference = volume.spec.claim_ref
        return sorted(self._pending) if reference is None else [f"{reference.namespace}/{reference.name}"]


def standard_class() -> StorageClass:
    """The default class: folders of the node to which the first pod comes."""
    return StorageClass(
        metadata=ObjectMeta(name=STANDARD, annotations={DEFAULT_CLASS: "true"}),
        provisioner=PROVISIONER,
        reclaim_policy="Delete",
        volume_binding_mode=WAIT,
        allow_volume_expansion=True,
    )


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _waits(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    return bool(new.spec.volumes) and event_type == "ADDED" and not new.spec.node_name


def _came_went_or_turned(event_type: EventType, new: Node, old: Node | None) -> bool:
    return event_type != "MODIFIED" or old is None or new.status.conditions != old.status.conditions
