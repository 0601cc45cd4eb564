"""Claims stay while pods use them, and volumes while claims have them: the finalizers of Kubernetes.

On a cluster kube-controller-manager and its admission do this.
"""

from __future__ import annotations

from typing import TypeVar

from unisono.api.base import Object
from unisono.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from unisono.api.finalizers import has_finalizer
from unisono.api.keys import CLAIM_PROTECTION, VOLUME_PROTECTION
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from unisono.api.volumes import claim_keys
from unisono.controllers.finalizers import add_finalizer, remove_finalizer
from unisono.controllers.indexing import index
from unisono.controllers.owners import controller_uids
from unisono.controllers.volumes.binder import POD_INDEX
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

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
