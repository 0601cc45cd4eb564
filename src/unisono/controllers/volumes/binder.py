"""Binds claims to volumes, asks provisioners for volumes, and makes the claims of ephemeral ones."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume
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
from unisono.api.volumes import PROVISIONER, WAIT, claim_keys, claim_name
from unisono.controllers.objects import LastWritten, to_json, write_status
from unisono.controllers.owners import controller_uids, index, owned_by
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Announcer, Notice, Recorder
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
from unisono.errors import AlreadyExists, ApiError, NotFound, UnisonoError
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

# Binds claims to volumes, and asks provisioners for volumes that are not there.
#
# On a cluster kube-controller-manager does this. The scheduler chooses among volumes, or the node for which one is
# made, where the claim's class waits for its first consumer; here that choice is carried out.

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


# Makes the claims of ephemeral volumes: each goes with its pod.
#
# On a cluster kube-controller-manager does this.

_RETRY_SECONDS = 5.0


class EphemeralVolumeController(Controller):
    """Makes ``POD-VOLUME`` for every ephemeral volume of a pod."""

    name = "ephemeral-volume-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._announcer = Announcer(recorder)

    def setup(self, context: Context) -> None:
        """Watch pods with ephemeral volumes, and claims that go while their pod is there."""
        self._client = context.client
        self._pods = context.watch(PODS, when=_comes)
        self._announcer.forget_deleted(self._pods)
        index(self._pods, POD_INDEX, claim_keys)
        self._claims = context.watch(PERSISTENT_VOLUME_CLAIMS, self._pods_of, when=_goes)

    async def reconcile(self, key: str) -> float | None:
        """Make what is missing."""
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod):
            return None
        again: float | None = None
        for volume in pod.spec.volumes or ():
            if volume.ephemeral is None:
                continue
            try:
                await self._make(pod, volume)
            except NotFound:
                return None
            except (ApiError, NotOwned) as error:
                text = f"ephemeral volume {volume.name}: {error}"
                self._announcer.tell(pod, [Notice("Warning", "FailedBinding", text, once=text)])
                again = _RETRY_SECONDS
        return again

    async def _make(self, pod: Pod, volume: Volume) -> None:
        claim = claim_for(pod, volume)
        existing = self._claims.get(claim.key)
        if existing is None:
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim)
                return
            except AlreadyExists:
                existing = await self._client.get(
                    PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, claim.metadata.namespace
                )
        if (pod.metadata.uid or "") not in controller_uids(existing):
            raise NotOwned(f"PVC {existing.key} was not created for pod {pod.key} (pod is not owner)")

    def _pods_of(self, claim: PersistentVolumeClaim) -> list[str]:
        pods = self._pods.by_index(POD_INDEX, claim.key)
        return [pod.key for pod in pods if any(volume.ephemeral is not None for volume in pod.spec.volumes or ())]


class NotOwned(UnisonoError):
    """A claim of the wanted name has another owner."""


def claim_for(pod: Pod, volume: Volume) -> PersistentVolumeClaim:
    """The claim of one ephemeral volume."""
    template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=claim_name(pod.metadata.name, volume) or "",
            namespace=pod.metadata.namespace,
            owner_references=[owned_by(PODS, pod)],
        )
    )
    if template is not None:
        claim.spec = msgspec.structs.replace(template.spec)
        if template.metadata is not None:
            claim.metadata.labels = template.metadata.labels
            claim.metadata.annotations = template.metadata.annotations
    return claim


def _comes(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    if event_type != "ADDED" or not new.spec.volumes:
        return False
    return any(volume.ephemeral is not None for volume in new.spec.volumes)


def _goes(event_type: EventType, new: PersistentVolumeClaim, old: PersistentVolumeClaim | None) -> bool:
    return event_type == "DELETED"
