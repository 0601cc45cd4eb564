"""Owner references: who made an object, and the indexes by which its objects are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from unisono.api.base import Object, OwnerReference
from unisono.api.kind import Kind
from unisono.api.kinds import JOBS
from unisono.api.membership import controller_of
from unisono.kube.informer import Informer

# Indexes on informers that several controllers share.

T = TypeVar("T", bound=Object)


def index(informer: Informer[T], name: str, function: Callable[[T], Iterable[str]]) -> None:
    """Add the index unless another controller has done so already."""
    if not informer.has_index(name):
        informer.add_index(name, function)


# Owner references: who made an object.


def owned_by(kind: Kind[Any], owner: Object) -> OwnerReference:
    """Reference that makes ``owner`` the controller of a dependent, which goes when the owner goes."""
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid or "",
        controller=True,
        block_owner_deletion=True,
    )


def controller_uids(obj: Object) -> list[str]:
    """UID of the object's controller, of whatever kind."""
    reference = controller_of(obj)
    return [reference.uid] if reference else []


def controller_keys(obj: Object) -> list[str]:
    """Index function: what ``family`` answers for the object's controller.

    A reference is only what its author wrote. Owners are in their dependents' namespace: one that names the UID of an
    object elsewhere must not make its dependent count there.
    """
    return [_family(obj, uid) for uid in controller_uids(obj)]


def family(owner: Object) -> str:
    """Under which value of an index by ``controller_keys`` or ``job_families`` the dependents of an owner are found."""
    return _family(owner, owner.metadata.uid or "")


def controller_of_kind(kind: Kind[Any], obj: Object) -> OwnerReference | None:
    """The controller reference if it names an object of this kind, in whatever version."""
    reference = controller_of(obj)
    if reference is None or reference.kind != kind.kind or reference.api_version.partition("/")[0] != kind.group:
        return None
    return reference


def keys_of(kind: Kind[Any], obj: Object) -> list[str]:
    """Key of the object's controller, ``namespace/name``, if it is of this kind."""
    reference = controller_of_kind(kind, obj)
    return [f"{obj.metadata.namespace}/{reference.name}"] if reference else []


def job_uids(obj: Object) -> list[str]:
    """UID of the controlling Job."""
    reference = controller_of_kind(JOBS, obj)
    return [reference.uid] if reference else []


def job_families(obj: Object) -> list[str]:
    """Index function: what ``family`` answers for the controlling Job."""
    return [_family(obj, uid) for uid in job_uids(obj)]


def job_keys(obj: Object) -> list[str]:
    """Key of the controlling Job, ``namespace/name``."""
    return keys_of(JOBS, obj)


def _family(obj: Object, uid: str) -> str:
    return f"{obj.metadata.namespace or ''}/{uid}"
