"""Binds claims to volumes, asks provisioners for volumes, and makes the claims of ephemeral ones."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from unisono.api import keys
from unisono.api.base import Object, ObjectMeta
from unisono.api.conditions import has_finalizer
from unisono.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume
from unisono.api.kinds import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from unisono.api.volumes import PROVISIONER, WAIT, claim_keys, claim_name
from unisono.controllers.objects import LastWritten, add_finalizer, remove_finalizer, to_json, write_status
from unisono.controllers.owners import controller_uids, index, owned_by
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.controllers.volumes import decide
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
        if claim.status.phase == "Bound" and not claim.spec.volume_name and keys.BIND_COMPLETED not in annotations:
            # A folder of its node, from a time or a cluster without volumes.
            return None
        if claim.metadata.deletion_timestamp and not claim.spec.volume_name:
            self._pending.discard(key)
            return None
        volumes: dict[str, PersistentVolume] = {each.key: self._volume(each) for each in self._volumes.items()}
        classes: dict[str, StorageClass] = {each.metadata.name: each for each in self._classes.items()}
        nodes: dict[str, Node] = {each.metadata.name: each for each in self._nodes.items()}
        step = decide.next_of_claim(claim, volumes, classes, nodes, self._waiting(key))
        (self._pending.discard if isinstance(step, decide.Bind | decide.Lose) else self._pending.add)(key)
        try:
            await self._carry_out(claim, step)
        except NotFound:
            return None
        return None

    async def _carry_out(self, claim: PersistentVolumeClaim, step: decide.ClaimStep) -> None:
        if isinstance(step, decide.Bind):
            await self._bind(claim, step.volume)
        elif isinstance(step, decide.Classify):
            await self._patch(claim, {"spec": {"storageClassName": step.name}})
        elif isinstance(step, decide.Provision):
            notes = {keys.STORAGE_PROVISIONER: step.provisioner, keys.STORAGE_PROVISIONER_BETA: step.provisioner}
            if step.node is not None:
                notes[keys.SELECTED_NODE] = step.node
            self._announcer.tell(claim, [step.notice])
            await self._annotate(claim, notes)
        elif isinstance(step, decide.Reselect):
            self._announcer.tell(claim, [step.notice])
            await self._annotate(claim, {keys.SELECTED_NODE: None})
        elif isinstance(step, decide.Lose):
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
                patch["metadata"] = {"annotations": {keys.BOUND_BY_CONTROLLER: "yes"}}
            volume = await self._patch_volume(volume, patch)
        if volume.status.phase != "Bound":
            status = msgspec.structs.replace(volume.status, phase="Bound", message=None, reason=None)
            volume = await write_status(self._client, PERSISTENT_VOLUMES, volume, status)
            self._volumes_written.keep(volume)
        annotations = claim.metadata.annotations or {}
        if not claim.spec.volume_name or keys.BIND_COMPLETED not in annotations:
            notes = {keys.BIND_COMPLETED: "yes"}
            patch = {"metadata": {"annotations": notes}}
            if not claim.spec.volume_name:
                notes[keys.BOUND_BY_CONTROLLER] = "yes"
                patch["spec"] = {"volumeName": volume.metadata.name}
            claim = await self._patch(claim, patch)
        if claim.status.phase == "Bound" and decide.grown(claim, volume):
            await self._grow(claim, volume)
        else:
            await self._phase(claim, "Bound", volume)

    async def _grow(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """A folder has no size of its own: it grows by saying so."""
        if (volume.metadata.annotations or {}).get(keys.PROVISIONED_BY) != PROVISIONER:
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
        metadata=ObjectMeta(name=STANDARD, annotations={keys.DEFAULT_CLASS: "true"}),
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


# The life of volumes: their phases, who lets go of whom, and what stays while it is used.

# Keeps the phases of volumes true, and lets go of those whose claim is gone.
#
# On a cluster kube-controller-manager does this. Folders are deleted by the node on which they are.

_CLAIM_INDEX = "volumes-of-claim"


class VolumeController(Controller):
    """Writes ``status.phase`` of volumes."""

    name = "persistentvolume-controller"
    workers = 4

    def __init__(self, recorder: Recorder) -> None:
        self._announcer = Announcer(recorder)
        self._written: LastWritten[PersistentVolume] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch volumes and the claims that they name."""
        self._volumes = context.watch(PERSISTENT_VOLUMES)
        self._announcer.forget_deleted(self._volumes)
        index(self._volumes, _CLAIM_INDEX, _named_claim)
        self._claims = context.watch(PERSISTENT_VOLUME_CLAIMS, self._volumes_of)

    async def reconcile(self, key: str) -> float | None:
        """Bring one volume's phase to where it belongs."""
        volume = self._written.newest(key, self._volumes.get(key))
        if volume is None:
            return None
        claim = await self._claim_of(volume)
        step = decide.next_of_volume(volume, claim)
        self._announcer.tell(volume, step.notices)
        if claim is not None and step.claim_notice is not None:
            self._announcer.tell(claim, [step.claim_notice])
        try:
            if step.unbind:
                volume = await self._unbind(volume)
            if step.phase is not None and step.phase != volume.status.phase:
                status = msgspec.structs.replace(volume.status, phase=step.phase, message=step.message or None)
                self._written.keep(await write_status(self._client, PERSISTENT_VOLUMES, volume, status))
        except NotFound:
            return None
        return None

    async def _claim_of(self, volume: PersistentVolume) -> PersistentVolumeClaim | None:
        """The very claim that the volume names; the server is asked before it counts as gone."""
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return None
        claim = self._claims.get(f"{reference.namespace}/{reference.name}")
        if claim is None or claim.metadata.uid != reference.uid:
            try:
                claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, reference.name or "", reference.namespace)
            except NotFound:
                return None
        return claim if claim.metadata.uid == reference.uid else None

    async def _unbind(self, volume: PersistentVolume) -> PersistentVolume:
        """Undo what was bound here; who named a claim by hand goes on naming it."""
        meta = volume.metadata
        patch: dict[str, Any] = {"metadata": {"resourceVersion": meta.resource_version}, "spec": {"claimRef": None}}
        if keys.BOUND_BY_CONTROLLER in (meta.annotations or {}):
            patch["metadata"]["annotations"] = {keys.BOUND_BY_CONTROLLER: None}
        else:
            patch["spec"]["claimRef"] = {"uid": None}
        volume = await self._client.patch(PERSISTENT_VOLUMES, meta.name, patch)
        self._written.keep(volume)
        return volume

    def _volumes_of(self, claim: PersistentVolumeClaim) -> list[str]:
        return [each.metadata.name for each in self._volumes.by_index(_CLAIM_INDEX, claim.key)]


def _named_claim(volume: PersistentVolume) -> list[str]:
    reference = volume.spec.claim_ref
    return [f"{reference.namespace}/{reference.name}"] if reference is not None else []


# Claims stay while pods use them, and volumes while claims have them: the finalizers of Kubernetes.
#
# On a cluster kube-controller-manager and its admission do this.

T = TypeVar("T", bound=Object)


class ClaimProtectionController(Controller):
    """Keeps ``kubernetes.io/pvc-protection`` on claims until no pod on a node uses them."""

    name = "pvc-protection-controller"
    workers = 4

    def setup(self, context: Context) -> None:
        """Watch claims, and pods that end."""
        self._claims = context.watch(PERSISTENT_VOLUME_CLAIMS)
        self._pods = context.watch(PODS, claim_keys, when=_may_let_go)
        index(self._pods, POD_INDEX, claim_keys)

    async def reconcile(self, key: str) -> float | None:
        """Protect the claim, or let it go."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        if not claim.metadata.deletion_timestamp:
            await add_finalizer(self._client, PERSISTENT_VOLUME_CLAIMS, claim, keys.CLAIM_PROTECTION)
        elif has_finalizer(claim, keys.CLAIM_PROTECTION) and not await self._in_use(claim):
            await remove_finalizer(self._client, PERSISTENT_VOLUME_CLAIMS, claim, keys.CLAIM_PROTECTION)
        return None

    async def _in_use(self, claim: PersistentVolumeClaim) -> bool:
        """Also asks the server: a pod may have come to its node a moment ago."""
        if any(uses(pod, claim) for pod in self._pods.by_index(POD_INDEX, claim.key)):
            return True
        live = await self._client.list(PODS, claim.metadata.namespace)
        return any(uses(pod, claim) for pod in live.items)


class VolumeProtectionController(Controller):
    """Keeps ``kubernetes.io/pv-protection`` on volumes while they are bound."""

    name = "pv-protection-controller"
    workers = 4

    def setup(self, context: Context) -> None:
        """Watch volumes."""
        self._volumes = context.watch(PERSISTENT_VOLUMES)

    async def reconcile(self, key: str) -> float | None:
        """Protect the volume, or let it go."""
        volume: PersistentVolume | None = self._volumes.get(key)
        if volume is None:
            return None
        if not volume.metadata.deletion_timestamp:
            await add_finalizer(self._client, PERSISTENT_VOLUMES, volume, keys.VOLUME_PROTECTION)
        elif has_finalizer(volume, keys.VOLUME_PROTECTION) and volume.status.phase != "Bound":
            await remove_finalizer(self._client, PERSISTENT_VOLUMES, volume, keys.VOLUME_PROTECTION)
        return None


def uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod keeps a claim: it is on a node, even if it has ended; an ephemeral one until it is gone."""
    if not pod.spec.node_name or claim.key not in claim_keys(pod):
        return False
    direct = any(
        volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == claim.metadata.name
        for volume in pod.spec.volumes or ()
    )
    if direct:
        return True
    over = pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds == 0
    return not over and (pod.metadata.uid or "") in controller_uids(claim)


def _may_let_go(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    if not new.spec.volumes:
        return False
    return event_type == "DELETED" or new.metadata.deletion_timestamp is not None
