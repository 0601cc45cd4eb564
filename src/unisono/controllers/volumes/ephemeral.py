"""Makes the claims of ephemeral volumes: each goes with its pod.

On a cluster kube-controller-manager does this.
"""

from __future__ import annotations

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import PersistentVolumeClaim, Pod, Volume
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from unisono.api.volumes import claim_keys, claim_name
from unisono.controllers.indexing import index
from unisono.controllers.notices import Announcer, Notice
from unisono.controllers.owners import controller_uids, owned_by
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Recorder
from unisono.controllers.volumes.binder import POD_INDEX
from unisono.errors import AlreadyExists, ApiError, NotFound, UnisonoError
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

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
        wanted = claim_for(pod, volume)
        found = self._claims.get(wanted.key)
        if found is None:
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, wanted)
                return
            except AlreadyExists:
                found = await self._client.get(
                    PERSISTENT_VOLUME_CLAIMS, wanted.metadata.name, wanted.metadata.namespace
                )
        if (pod.metadata.uid or "") not in controller_uids(found):
            raise NotOwned(f"PVC {found.key} was not created for pod {pod.key} (pod is not owner)")

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
