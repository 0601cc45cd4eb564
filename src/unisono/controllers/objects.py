"""Creates, changes and deletes single objects, and leaves those of other owners alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.documents.merge import Json
from unisono.api.kind import Kind
from unisono.api.membership import controller_of
from unisono.controllers.patching import contains, field_diff, to_json
from unisono.errors import AlreadyExists, Conflict, NotFound, UnisonoError
from unisono.kube.client import Client

T = TypeVar("T", bound=Object)

_ENVELOPE = frozenset({"apiVersion", "kind", "metadata", "status"})
# Maps that belong to the owner as a whole: entries too many are removed.
_EXACT = frozenset({"data", "binaryData"})


class ForeignObject(UnisonoError):
    """An object of the wanted name belongs to something else."""


class BeingDeleted(UnisonoError):
    """An object of the wanted name is on its way out; it is enough to wait."""


def owner_uid(obj: Object) -> str:
    """UID of the object's controller, empty without one."""
    reference = controller_of(obj)
    return reference.uid if reference else ""


async def create_once(client: Client, kind: Kind[T], obj: T) -> T | None:
    """Create an object that its controller makes under a fixed name.

    Returns:
        the created object, or None when the same owner has made it before.

    Raises:
        BeingDeleted: an object of that name is being deleted, or is the last that a deleted owner of that name left.
        ForeignObject: an object of that name belongs to something else.

    """
    try:
        return await client.create(kind, obj)
    except AlreadyExists:
        found = await client.get(kind, obj.metadata.name, obj.metadata.namespace)
    if owner_uid(found) == owner_uid(obj) and not found.metadata.deletion_timestamp:
        return None
    raise _occupied(kind, found, obj)


async def ensure(client: Client, kind: Kind[Any], obj: Object, *, permanent: bool = False) -> None:
    """Create the object, or patch the one that the same owner has made where it differs.

    Args:
        client: the API server.
        kind: kind of the object.
        obj: how the object should be.
        permanent: an existing one is left as it is.

    Raises:
        BeingDeleted: as ``create_once``.
        ForeignObject: as ``create_once``.

    """
    if await create_once(client, kind, obj) is not None or permanent:
        return
    meta = obj.metadata
    found = await client.get(kind, meta.name, meta.namespace)
    patch = difference(to_json(found), to_json(obj))
    if patch:
        await client.patch(kind, meta.name, patch, namespace=meta.namespace)


async def ensure_seeded(
    client: Client, kind: Kind[Any], obj: Object, seed: Callable[[], Awaitable[Mapping[str, str]]]
) -> None:
    """As ``ensure``, for an object of which a part of ``data`` is made once and then left alone.

    Args:
        client: the API server.
        kind: kind of the object, one with ``data``.
        obj: how the object should be, without that part.
        seed: makes that part; asked only where the object does not exist yet.

    Raises:
        BeingDeleted: as ``create_once``.
        ForeignObject: as ``create_once``.

    """
    meta, data = obj.metadata, to_json(obj).get("data") or {}
    try:
        found = await client.get(kind, meta.name, meta.namespace)
    except NotFound:
        complete = msgspec.structs.replace(obj, data={**data, **await seed()})
        if await create_once(client, kind, complete) is not None:
            return
        found = await client.get(kind, meta.name, meta.namespace)
    if owner_uid(found) != owner_uid(obj) or found.metadata.deletion_timestamp:
        raise _occupied(kind, found, obj)
    have = to_json(found).get("data") or {}
    if not contains(have, data):
        await client.patch(kind, meta.name, {"data": data}, namespace=meta.namespace)


def difference(actual: Json, wanted: Json) -> Json:
    """Merge patch that brings ``wanted`` into ``actual``; what others or defaults added stays, except in data maps."""
    return field_diff(actual, wanted, (key for key in wanted if key not in _ENVELOPE), exact=_EXACT)


async def delete_owned(client: Client, kind: Kind[Any], obj: Object) -> None:
    """Delete the object of that name if the same owner has made it; an absent one is fine."""
    meta = obj.metadata
    try:
        found = await client.get(kind, meta.name, meta.namespace)
        if owner_uid(found) == owner_uid(obj) and not found.metadata.deletion_timestamp:
            await client.delete(kind, meta.name, meta.namespace, uid=found.metadata.uid)
    except NotFound:
        return


async def delete_seen(client: Client, kind: Kind[T], obj: T) -> None:
    """Delete this very incarnation of an object; one that is gone or was replaced is fine.

    Raises:
        Conflict: it is still there; try again.

    """
    meta = obj.metadata
    try:
        await client.delete(kind, meta.name, meta.namespace, uid=meta.uid)
    except NotFound:
        return
    except Conflict:
        # Either another object has the name by now, or the server asks for another try.
        try:
            found = await client.get(kind, meta.name, meta.namespace)
        except NotFound:
            return
        if found.metadata.uid == meta.uid:
            raise


def _occupied(kind: Kind[Any], found: Object, wanted: Object) -> UnisonoError:
    mine, theirs = controller_of(wanted), controller_of(found)
    what = f"{kind.kind.lower()} {found.key}"
    former = mine and theirs and (theirs.kind, theirs.name) == (mine.kind, mine.name)
    if found.metadata.deletion_timestamp or former:
        return BeingDeleted(f"{what} of an earlier owner is still there; waiting until it is gone.")
    return ForeignObject(f"{what} exists and belongs to something else; delete or rename it.")
