"""The life of volumes: their phases, who lets go of whom, and what stays while it is used."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from unisono.api.finalizers import has_finalizer
from unisono.api.keys import BOUND_BY_CONTROLLER, CLAIM_PROTECTION, VOLUME_PROTECTION
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from unisono.api.volumes import claim_keys
from unisono.controllers.objects import LastWritten, add_finalizer, remove_finalizer, write_status
from unisono.controllers.owners import controller_uids, index
from unisono.controllers.recorder import Announcer, Recorder
from unisono.controllers.volumes.binder import POD_INDEX
from unisono.controllers.volumes.decide import next_of_volume
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

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
        self._client, self._clock = context.client, context.clock
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
        step = next_of_volume(volume, claim)
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
        if BOUND_BY_CONTROLLER in (meta.annotations or {}):
            patch["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: None}
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
        self._client = context.client
        self._claims = context.watch(PERSISTENT_VOLUME_CLAIMS)
        self._pods = context.watch(PODS, claim_keys, when=_may_let_go)
        index(self._pods, POD_INDEX, claim_keys)

    async def reconcile(self, key: str) -> float | None:
        """Protect the claim, or let it go."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        if not claim.metadata.deletion_timestamp:
            await add_finalizer(self._client, PERSISTENT_VOLUME_CLAIMS, claim, CLAIM_PROTECTION)
        elif has_finalizer(claim, CLAIM_PROTECTION) and not await self._in_use(claim):
            await remove_finalizer(self._client, PERSISTENT_VOLUME_CLAIMS, claim, CLAIM_PROTECTION)
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
        self._client = context.client
        self._volumes = context.watch(PERSISTENT_VOLUMES)

    async def reconcile(self, key: str) -> float | None:
        """Protect the volume, or let it go."""
        volume: PersistentVolume | None = self._volumes.get(key)
        if volume is None:
            return None
        if not volume.metadata.deletion_timestamp:
            await add_finalizer(self._client, PERSISTENT_VOLUMES, volume, VOLUME_PROTECTION)
        elif has_finalizer(volume, VOLUME_PROTECTION) and volume.status.phase != "Bound":
            await remove_finalizer(self._client, PERSISTENT_VOLUMES, volume, VOLUME_PROTECTION)
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
