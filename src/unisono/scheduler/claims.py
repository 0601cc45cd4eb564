"""Writes what a pod's claims need before the pod is bound: volumes for claims, devices for resource claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog

from unisono.api import core
from unisono.api.base import Object
from unisono.api.keys import DELETE_PROTECTION, SELECTED_NODE
from unisono.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS
from unisono.cluster.catalogue import Catalogue, ObjectsByKey
from unisono.engine.decisions import Bind, ClaimAllocation, VolumeBind
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.informer import is_newer

# What a preparation of a bind changes in the cluster state while its write is on its way (pure).


class Change(NamedTuple):
    """How an object changes.

    Attributes:
        shelf, key: where the object stands.
        apply: the object with the change; what it shows already stays.
        included: whether a state of the object shows the change, or another one in its place.
    """

    shelf: ObjectsByKey[Any]
    key: str
    apply: Callable[[Any], Any]
    included: Callable[[Any], bool]


def change_of(catalogue: Catalogue, bind: Bind, need: VolumeBind | ClaimAllocation) -> Change:
    """What a preparation changes."""
    key = f"{need.namespace}/{need.claim}"
    if isinstance(need, ClaimAllocation):
        user = user_of(bind)
        return Change(catalogue.device_claims, key, partial(_with_user, need, user), partial(_has_user, user))
    if need.volume:
        return Change(catalogue.volumes, need.volume, partial(_with_claim, need), _is_given)
    return Change(catalogue.volume_claims, key, partial(_with_node, need), _is_decided)


def since(written: Object | None, included: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether a state of an object includes a change: it shows it, or is as new as what the server answered."""
    return lambda obj: written is None or included(obj) or not is_newer(written, obj)


def selected_node(claim: core.PersistentVolumeClaim) -> str | None:
    """The node for which the claim's volume is to be made."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def user_of(bind: Bind) -> core.ResourceClaimConsumerReference:
    """The pod as a user of a device claim."""
    return core.ResourceClaimConsumerReference(resource="pods", name=bind.pod, uid=bind.uid)


def reference_to(need: VolumeBind) -> core.ObjectReference:
    """The volume claim, as its volume names it."""
    return core.ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=need.namespace, name=need.claim, uid=need.uid
    )


def _with_user(
    need: ClaimAllocation, user: core.ResourceClaimConsumerReference, claim: core.ResourceClaim
) -> core.ResourceClaim:
    """The claim with its devices, used by a pod."""
    users = claim.status.reserved_for or []
    if not _has_user(user, claim):
        users = [*users, user]
    allocation = claim.status.allocation or need.allocation
    status = msgspec.structs.replace(claim.status, allocation=allocation, reserved_for=users)
    return msgspec.structs.replace(claim, status=status)


def _has_user(user: core.ResourceClaimConsumerReference, claim: core.ResourceClaim) -> bool:
    return any(one.uid == user.uid for one in claim.status.reserved_for or ())


def _with_claim(need: VolumeBind, volume: core.PersistentVolume) -> core.PersistentVolume:
    """The volume, given to a claim unless it is given already."""
    if _is_given(volume):
        return volume
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference_to(need)))


def _is_given(volume: core.PersistentVolume) -> bool:
    return volume.spec.claim_ref is not None


def _with_node(need: VolumeBind, claim: core.PersistentVolumeClaim) -> core.PersistentVolumeClaim:
    """The claim, its volume to be made for a node unless that is decided already."""
    if _is_decided(claim):
        return claim
    notes = {**(claim.metadata.annotations or {}), SELECTED_NODE: need.node}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=notes))


def _is_decided(claim: core.PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) or selected_node(claim) is not None


# Devices that a driver has to attach before the pod is bound: what their conditions say (pure).

TIMEOUT_SECONDS = 600.0
"""For how long a driver may take, as in kube-scheduler."""


class BindingFailed(Exception):
    """A driver says that a device cannot be attached."""


def waits_for(claim: core.ResourceClaim) -> str:
    """What the first device that is not attached lacks; empty when the pod may be bound.

    Raises:
        BindingFailed: one of its failure conditions is true.
    """
    allocation = claim.status.allocation
    states = {(one.driver, one.pool, one.device, one.share_id): one for one in claim.status.devices or ()}
    missing = ""
    for result in (allocation.devices.results or ()) if allocation is not None else ():
        state = states.get((result.driver, result.pool, result.device, result.share_id))
        true = _true(state)
        failed = sorted(true.keys() & set(result.binding_failure_conditions or ()))
        if failed:
            raise BindingFailed(f"device {_name(result)} failed to bind: {failed[0]}{true[failed[0]]}")
        lacking = [name for name in result.binding_conditions or () if name not in true]
        missing = missing or (f"condition {lacking[0]} of device {_name(result)}" if lacking else "")
    return missing


def _true(state: core.AllocatedDeviceStatus | None) -> dict[str, str]:
    """Conditions that are true, with their message behind a colon."""
    conditions = (state.conditions or ()) if state is not None else ()
    return {one.type: f": {one.message}" if one.message else "" for one in conditions if one.status == "True"}


def _name(result: core.DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


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
        while isinstance(claim, core.ResourceClaim):
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

    async def _allocate(self, bind: Bind, need: ClaimAllocation) -> core.ResourceClaim:
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

    async def _protect(self, claim: core.ResourceClaim) -> core.ResourceClaim:
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

    async def _unprotect(self, claim: core.ResourceClaim) -> None:
        kept = [name for name in claim.metadata.finalizers or [] if name != DELETE_PROTECTION]
        await self._patch_claim(claim, {"metadata": {"finalizers": kept or None}})

    async def _write_status(self, claim: core.ResourceClaim, status: Mapping[str, Any]) -> core.ResourceClaim:
        return await self._patch_claim(claim, {"status": status}, "status")

    async def _patch_claim(
        self, claim: core.ResourceClaim, patch: dict[str, Any], subresource: str | None = None
    ) -> core.ResourceClaim:
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

    async def _reserve(self, need: VolumeBind) -> core.PersistentVolume:
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

    async def _select(self, need: VolumeBind) -> core.PersistentVolumeClaim:
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

    async def _annotate(self, claim: core.PersistentVolumeClaim, node: str | None) -> core.PersistentVolumeClaim:
        meta = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: node}}
        return await self._client.patch(
            PERSISTENT_VOLUME_CLAIMS, claim.metadata.name, {"metadata": meta}, namespace=claim.metadata.namespace
        )

    async def _claim(self, need: VolumeBind) -> core.PersistentVolumeClaim:
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


def _is_protected(claim: core.ResourceClaim) -> bool:
    return DELETE_PROTECTION in (claim.metadata.finalizers or [])


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
