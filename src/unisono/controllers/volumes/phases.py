"""Keeps the phases of volumes true, and lets go of those whose claim is gone.

On a cluster kube-controller-manager does this. Folders are deleted by the node on which they are.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.core import PersistentVolume, PersistentVolumeClaim
from unisono.api.keys import BOUND_BY_CONTROLLER
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from unisono.controllers.indexing import index
from unisono.controllers.notices import Announcer
from unisono.controllers.recorder import Recorder
from unisono.controllers.statuses import LastWritten, write_status
from unisono.controllers.volumes.decide import next_of_volume
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

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
        found = self._claims.get(f"{reference.namespace}/{reference.name}")
        if found is None or found.metadata.uid != reference.uid:
            try:
                found = await self._client.get(PERSISTENT_VOLUME_CLAIMS, reference.name or "", reference.namespace)
            except NotFound:
                return None
        return found if found.metadata.uid == reference.uid else None

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
