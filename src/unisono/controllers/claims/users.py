"""Takes claims back from pods that use them no more: devices become free, claims made for a pod go.

On a cluster kube-controller-manager does this.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.core import Pod, ResourceClaim, ResourceClaimConsumerReference
from unisono.api.finalizers import has_finalizer, without
from unisono.api.keys import DELETE_PROTECTION
from unisono.api.kinds import PODS, RESOURCE_CLAIMS
from unisono.api.membership import controller_of
from unisono.controllers.claims.decide import claim_keys, is_done, is_pod, needs_claims
from unisono.controllers.claims.made import CLAIM_INDEX
from unisono.controllers.indexing import index
from unisono.controllers.objects import delete_seen
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller


class ClaimUserController(Controller):
    """Keeps ``status.reservedFor`` true, and frees what is not used."""

    name = "resource-claim-controller"

    def setup(self, context: Context) -> None:
        """Watch claims, and pods that end."""
        self._client = context.client
        self._claims = context.watch(RESOURCE_CLAIMS)
        self._pods = context.watch(PODS, claim_keys, when=_may_let_go)
        index(self._pods, CLAIM_INDEX, claim_keys)

    async def reconcile(self, key: str) -> float | None:
        """Look at one claim and its users."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        users = claim.status.reserved_for or []
        remaining = [user for user in users if not is_pod(user) or await self._still_uses(claim, user)]
        try:
            if len(remaining) < len(users):
                claim = await self._free(claim, remaining)
            elif not remaining and claim.metadata.deletion_timestamp and has_finalizer(claim, DELETE_PROTECTION):
                claim = await self._free(claim, [])
            if not remaining:
                await self._delete_unneeded(claim)
        except NotFound:
            return None
        return None

    async def _still_uses(self, claim: ResourceClaim, user: ResourceClaimConsumerReference) -> bool:
        """Whether the pod is there and will run; the server is asked about one that the cache does not show."""
        pod = self._pods.get(f"{claim.metadata.namespace}/{user.name}")
        if pod is None:
            try:
                pod = await self._client.get(PODS, user.name, claim.metadata.namespace)
            except NotFound:
                return False
        return pod.metadata.uid == user.uid and not is_done(pod)

    async def _free(self, claim: ResourceClaim, remaining: list[ResourceClaimConsumerReference]) -> ResourceClaim:
        """Take users away; with the last one go the devices, and the finalizer that kept the claim for them."""
        status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(remaining) or None}
        over = not remaining and has_finalizer(claim, DELETE_PROTECTION)
        if over:
            status["allocation"] = None
        if len(remaining) < len(claim.status.reserved_for or ()) or (over and claim.status.allocation is not None):
            claim = await self._patch(claim, {"status": status}, "status")
        if over:
            kept = without(claim.metadata.finalizers, DELETE_PROTECTION)
            claim = await self._patch(claim, {"metadata": {"finalizers": kept}})
        return claim

    async def _delete_unneeded(self, claim: ResourceClaim) -> None:
        """A claim that was made for a pod goes when the pod has ended, even if the pod stays for a while."""
        owner = controller_of(claim)
        if owner is None or owner.kind != "Pod" or claim.metadata.deletion_timestamp:
            return
        pod = self._pods.get(f"{claim.metadata.namespace}/{owner.name}")
        if pod is not None and (pod.metadata.uid != owner.uid or is_done(pod)):
            await delete_seen(self._client, RESOURCE_CLAIMS, claim)

    async def _patch(
        self, claim: ResourceClaim, patch: dict[str, Any], subresource: str | None = None
    ) -> ResourceClaim:
        meta = claim.metadata
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}}
        return await self._client.patch(
            RESOURCE_CLAIMS, meta.name, guarded, namespace=meta.namespace, subresource=subresource
        )


def _may_let_go(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    return needs_claims(new) and (event_type == "DELETED" or is_done(new))
