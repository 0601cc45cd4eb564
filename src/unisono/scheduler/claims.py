"""Writes what a pod's claims need before the pod is bound: volumes for claims, devices for resource claims.

What is on its way counts at once in the cluster state, so that the next cycle does not give it to another pod. When
the bind does not come about, what was written for it is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import structlog

from unisono.api.base import Object
from unisono.api.core import (
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
)
from unisono.api.keys import DELETE_PROTECTION, SELECTED_NODE
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS
from unisono.cluster.catalogue import Catalogue
from unisono.engine.decisions import Bind, ClaimAllocation, VolumeBind
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.scheduler.claim_changes import change_of, reference_to, selected_node, since, user_of
from unisono.scheduler.device_binding import TIMEOUT_SECONDS, BindingFailed, waits_for

_ATTEMPTS = 5
# Folders of a node are made at once, disks of a cloud take their time.
_FIRST_LOOK_SECONDS, _LOOK_SECONDS = 0.05, 1.0
_FIRST_RETRY_SECONDS, _RETRY_SECONDS = 0.5, 30.0

_log = structlog.get_logger(__name__)


class ClaimError(Exception):
    """A claim cannot be prepared; the text says why."""


class ClaimWriter:
    """Prepares the claims of pods."""

    def __init__(self, client: Client, catalogue: Catalogue, clock: Clock) -> None:
        """``catalogue`` is that of the cluster state."""
        self._client, self._catalogue, self._clock = client, catalogue, clock
        # By uid of a pod whose bind is under way, and number of the preparation, the object as the server answered it.
        self._written: dict[str, dict[int, Object]] = {}
        # By uid of a volume claim the pods whose binds rely on what was written for it: pods of a job share claims.
        self._relying: dict[str, set[str]] = {}
        # By uid of a pod whose bind failed the device claims of which the server has not said that they are free.
        self._unsettled: dict[str, list[ClaimAllocation]] = {}

    # ---- in the state

    def assume(self, bind: Bind) -> None:
        """Let what ``bind`` will write count at once."""
        for need in bind.preparations:
            change = change_of(self._catalogue, bind, need)
            change.shelf.assume(change.key, bind.uid, change.apply, change.included)

    def forget(self, bind: Bind) -> None:
        """Let it not count any more, unless an event has told the truth meanwhile."""
        self._leave(bind)
        self._written.pop(bind.uid, None)
        for need in bind.preparations:
            change = change_of(self._catalogue, bind, need)
            change.shelf.end(change.key, bind.uid)

    def confirm(self, bind: Bind) -> None:
        """The bind is done: it counts until the events of the writes say the same."""
        self._leave(bind)
        written = self._written.pop(bind.uid, {})
        for number, need in enumerate(bind.preparations):
            change = change_of(self._catalogue, bind, need)
            change.shelf.written(change.key, bind.uid, since(written.get(number), change.included))

    def _leave(self, bind: Bind) -> None:
        for need in bind.preparations:
            if isinstance(need, VolumeBind) and (pods := self._relying.get(need.uid)) is not None:
                pods.discard(bind.uid)
                if not pods:
                    del self._relying[need.uid]

    # ---- on the server

    async def prepare(self, bind: Bind) -> None:
        """Write what the claims of a pod need.

        Raises:
            ClaimError: a claim cannot be prepared; what was written has been taken back.

        """
        written = self._written.setdefault(bind.uid, {})
        for done, need in enumerate(bind.preparations):
            try:
                if isinstance(need, ClaimAllocation):
                    written[done] = await self._allocate(bind, need)
                    continue
                self._relying.setdefault(need.uid, set()).add(bind.uid)
                written[done] = await (self._reserve(need) if need.volume else self._select(need))
            except (ApiError, OSError, TimeoutError, ClaimError) as error:
                await self.withdraw(bind, done + 1)
                raise ClaimError(str(error)) from error

    async def wait(self, bind: Bind) -> None:
        """Until every volume claim of the pod is bound, and its devices are attached.

        Raises:
            ClaimError: that took too long or failed, a claim is gone, or its volume is not to be made for this node any
                more.

        """
        written = self._written.get(bind.uid, {})
        for number, need in enumerate(bind.preparations):
            if isinstance(need, ClaimAllocation):
                await self._wait_for_devices(need, written.get(number))
                continue
            deadline, pause = self._clock.monotonic() + need.timeout, _FIRST_LOOK_SECONDS
            while not await self._is_bound(need):
                if self._clock.monotonic() >= deadline:
                    raise ClaimError(f"claim {need.claim} was not bound within {need.timeout:.0f} s")
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LOOK_SECONDS)

    async def _wait_for_devices(self, need: ClaimAllocation, claim: Object | None) -> None:
        """Until drivers have attached the devices of a claim; ``claim`` as it was written."""
        deadline, pause = self._clock.monotonic() + TIMEOUT_SECONDS, _FIRST_LOOK_SECONDS
        while isinstance(claim, ResourceClaim):
            try:
                missing = waits_for(claim)
            except BindingFailed as error:
                raise ClaimError(str(error)) from error
            if not missing:
                return
            if self._clock.monotonic() >= deadline:
                raise ClaimError(f"{missing} of claim {need.claim} was not true within {TIMEOUT_SECONDS:.0f} s")
            await self._clock.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS)
            try:
                claim = await self._client.get(RESOURCE_CLAIMS, need.claim, need.namespace)
            except NotFound as error:
                raise ClaimError(str(error)) from error
            except (ApiError, OSError, TimeoutError):
                continue
            if claim.metadata.uid != need.uid or claim.status.allocation is None:
                raise ClaimError(f"resource claim {need.claim} has lost its devices")

    async def withdraw(self, bind: Bind, number: int | None = None) -> None:
        """Take back what the first ``number`` preparations of a bind have written, unless others rely on it.

        Devices of which the server does not say that they are free are left to `settle`.
        """
        self._leave(bind)
        for need in bind.preparations[:number]:
            try:
                if isinstance(need, ClaimAllocation):
                    await self._release(bind, need)
                elif need.uid in self._relying:
                    continue
                elif need.volume:
                    await self._unreserve(need)
                else:
                    await self._unselect(need)
            except (ApiError, OSError, TimeoutError, ClaimError) as error:
                _log.warning("claim.kept", claim=f"{need.namespace}/{need.claim}", error=str(error))
                if isinstance(need, ClaimAllocation):
                    self._unsettled.setdefault(bind.uid, []).append(need)

    async def settle(self, bind: Bind) -> None:
        """Withdraw the devices of a failed bind until the server has answered, with growing pauses.

        Before that the bind must not be forgotten: a write without an answer may yet arrive, and its devices would be
        given away twice.
        """
        pause = _FIRST_RETRY_SECONDS
        for need in self._unsettled.pop(bind.uid, ()):
            while True:
                try:
                    await self._release(bind, need)
                    break
                except (ApiError, OSError, TimeoutError, ClaimError) as error:
                    _log.warning("claim.kept", claim=f"{need.namespace}/{need.claim}", error=str(error))
                await self._clock.sleep(pause)
                pause = min(2 * pause, _RETRY_SECONDS)

    # ---- device claims

    async def _allocate(self, bind: Bind, need: ClaimAllocation) -> ResourceClaim:
        for _ in range(_ATTEMPTS):
            claim = await self._client.get(RESOURCE_CLAIMS, need.claim, need.namespace)
            if claim.metadata.uid != need.uid or claim.metadata.deletion_timestamp:
                raise ClaimError(f"resource claim {need.claim} is another one now, or is being deleted")
            present = claim.status.allocation
            if present is None and need.allocation is None:
                raise ClaimError(f"resource claim {need.claim} has lost its devices")
            if present is not None and need.allocation is not None and present.devices != need.allocation.devices:
                raise ClaimError(f"resource claim {need.claim} has got other devices meanwhile")
            users = claim.status.reserved_for or []
            if present is not None and any(user.uid == bind.uid for user in users):
                return claim
            try:
                if present is None:
                    claim = await self._protect(claim)
                status: dict[str, Any] = {"reservedFor": _plain([*users, user_of(bind)])}
                if present is None:
                    status["allocation"] = _plain(need.allocation)
                return await self._write_status(claim, status)
            except Conflict:
                continue
        raise ClaimError(f"resource claim {need.claim} changes all the time")

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        finalizers = claim.metadata.finalizers or []
        if DELETE_PROTECTION in finalizers:
            return claim
        return await self._patch_claim(claim, {"metadata": {"finalizers": [*finalizers, DELETE_PROTECTION]}})

    async def _release(self, bind: Bind, need: ClaimAllocation) -> None:
        """The pod does not use the claim; no devices become free.

        A claim that does not show the allocation may be about to get it, by a write whose answer was lost. Such a write
        compares versions: the change of the finalizer that comes with each allocation makes it fail.
        """
        for _ in range(_ATTEMPTS):
            try:
                claim = await self._client.get(RESOURCE_CLAIMS, need.claim, need.namespace)
            except NotFound:
                return
            users = claim.status.reserved_for or []
            rest = [user for user in users if user.uid != bind.uid]
            if claim.metadata.uid != need.uid:
                return
            if len(rest) == len(users):
                if need.allocation is None or claim.status.allocation is not None or not _is_protected(claim):
                    return
                try:
                    await self._unprotect(claim)
                    return
                except Conflict:
                    continue
            status: dict[str, Any] = {"reservedFor": _plain(rest) or None}
            free = not rest and need.allocation is not None
            if free:
                status |= {"allocation": None, "devices": None}
            try:
                claim = await self._write_status(claim, status)
                if free and _is_protected(claim):
                    await self._unprotect(claim)
                return
            except Conflict:
                continue
        raise ClaimError(f"resource claim {need.claim} changes all the time")

    async def _unprotect(self, claim: ResourceClaim) -> None:
        kept = [name for name in claim.metadata.finalizers or [] if name != DELETE_PROTECTION]
        await self._patch_claim(claim, {"metadata": {"finalizers": kept or None}})

    async def _write_status(self, claim: ResourceClaim, status: Mapping[str, Any]) -> ResourceClaim:
        return await self._patch_claim(claim, {"status": status}, "status")

    async def _patch_claim(
        self, claim: ResourceClaim, patch: dict[str, Any], subresource: str | None = None
    ) -> ResourceClaim:
        """Compare and set."""
        meta = {**patch.get("metadata", {}), "resourceVersion": claim.metadata.resource_version}
        return await self._client.patch(
            RESOURCE_CLAIMS,
            claim.metadata.name,
            {**patch, "metadata": meta},
            namespace=claim.metadata.namespace,
            subresource=subresource,
        )

    # ---- volume claims

    async def _reserve(self, need: VolumeBind) -> PersistentVolume:
        """Give the volume to the claim; the volume controller then binds the two."""
        for _ in range(_ATTEMPTS):
            volume = await self._client.get(PERSISTENT_VOLUMES, need.volume)
            reference = volume.spec.claim_ref
            if reference is not None:
                if (reference.namespace, reference.name) != (need.namespace, need.claim):
                    raise ClaimError(f"volume {need.volume} was given to claim {reference.namespace}/{reference.name}")
                if reference.uid == need.uid:
                    return volume
            patch = {
                "metadata": {"resourceVersion": volume.metadata.resource_version},
                "spec": {"claimRef": _plain(reference_to(need))},
            }
            try:
                return await self._client.patch(PERSISTENT_VOLUMES, need.volume, patch)
            except Conflict:
                continue
        raise ClaimError(f"volume {need.volume} changes all the time")

    async def _unreserve(self, need: VolumeBind) -> None:
        if await self._is_bound(need):
            return
        volume = await self._client.get(PERSISTENT_VOLUMES, need.volume)
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid == need.uid:
            meta = {"resourceVersion": volume.metadata.resource_version}
            await self._client.patch(PERSISTENT_VOLUMES, need.volume, {"metadata": meta, "spec": {"claimRef": None}})

    async def _select(self, need: VolumeBind) -> PersistentVolumeClaim:
        """Tell the provisioner for which node to make the volume."""
        for _ in range(_ATTEMPTS):
            claim = await self._claim(need)
            selected = selected_node(claim)
            if selected == need.node or claim.spec.volume_name:
                return claim
            if selected is not None:
                raise ClaimError(f"the volume of claim {need.claim} is being made for node {selected}")
            try:
                return await self._annotate(claim, need.node)
            except Conflict:
                continue
        raise ClaimError(f"claim {need.claim} changes all the time")

    async def _unselect(self, need: VolumeBind) -> None:
        claim = await self._claim(need)
        if not claim.spec.volume_name and selected_node(claim) == need.node:
            await self._annotate(claim, None)

    async def _annotate(self, claim: PersistentVolumeClaim, node: str | None) -> PersistentVolumeClaim:
        meta = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}
        return await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, {"metadata": meta}, namespace=claim.metadata.namespace
        )

    async def _claim(self, need: VolumeBind) -> PersistentVolumeClaim:
        claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, need.claim, need.namespace)
        if claim.metadata.uid != need.uid:
            raise NotFound(f"claim {need.claim} is another one now")
        return claim

    async def _is_bound(self, need: VolumeBind) -> bool:
        try:
            claim = await self._claim(need)
        except NotFound as error:
            raise ClaimError(str(error)) from error
        except (ApiError, OSError, TimeoutError):
            return False
        if claim.spec.volume_name:
            return claim.status.phase == "Bound"
        if not need.volume and selected_node(claim) != need.node:
            raise ClaimError(f"the volume of claim {need.claim} is not to be made for node {need.node} any more")
        return False


def _is_protected(claim: ResourceClaim) -> bool:
    return DELETE_PROTECTION in (claim.metadata.finalizers or [])


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
