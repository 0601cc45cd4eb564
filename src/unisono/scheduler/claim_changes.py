"""What a preparation of a bind changes in the cluster state while its write is on its way (pure)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from unisono.api.base import Object
from unisono.api.core import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from unisono.api.keys import SELECTED_NODE
from unisono.cluster.catalogue import Catalogue, ObjectsByKey
from unisono.engine.decisions import Bind, ClaimAllocation, VolumeBind
from unisono.kube.informer import is_newer


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


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    """The node for which the claim's volume is to be made."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE)


def user_of(bind: Bind) -> ResourceClaimConsumerReference:
    """The pod as a user of a device claim."""
    return ResourceClaimConsumerReference(resource="pods", name=bind.pod, uid=bind.uid)


def reference_to(need: VolumeBind) -> ObjectReference:
    """The volume claim, as its volume names it."""
    return ObjectReference(
        api_version="v1", kind="PersistentVolumeClaim", namespace=need.namespace, name=need.claim, uid=need.uid
    )


def _with_user(need: ClaimAllocation, user: ResourceClaimConsumerReference, claim: ResourceClaim) -> ResourceClaim:
    """The claim with its devices, used by a pod."""
    users = claim.status.reserved_for or []
    if not _has_user(user, claim):
        users = [*users, user]
    allocation = claim.status.allocation or need.allocation
    status = msgspec.structs.replace(claim.status, allocation=allocation, reserved_for=users)
    return msgspec.structs.replace(claim, status=status)


def _has_user(user: ResourceClaimConsumerReference, claim: ResourceClaim) -> bool:
    return any(one.uid == user.uid for one in claim.status.reserved_for or ())


def _with_claim(need: VolumeBind, volume: PersistentVolume) -> PersistentVolume:
    """The volume, given to a claim unless it is given already."""
    if _is_given(volume):
        return volume
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference_to(need)))


def _is_given(volume: PersistentVolume) -> bool:
    return volume.spec.claim_ref is not None


def _with_node(need: VolumeBind, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """The claim, its volume to be made for a node unless that is decided already."""
    if _is_decided(claim):
        return claim
    notes = {**(claim.metadata.annotations or {}), SELECTED_NODE: need.node}
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, annotations=notes))


def _is_decided(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) or selected_node(claim) is not None
