"""Writes of controllers: objects, their fields, statuses and finalizers, and what the cache does not show yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.conditions import has_finalizer, without
from unisono.api.documents import Json, merge_diff
from unisono.api.kind import Kind
from unisono.api.selecting import controller_of
from unisono.controllers.owners import whole_number
from unisono.errors import AlreadyExists, Conflict, NotFound, UnisonoError
from unisono.kube.client import Client

# Merge patches of some fields of an object, made from how it is and how it should be.


def to_json(value: msgspec.Struct | None) -> Json:
    """The struct as plain JSON values under its wire names; ``None`` gives an empty object."""
    return {} if value is None else msgspec.to_builtins(value)


def field_diff(
    actual: Mapping[str, Any],
    wanted: Mapping[str, Any],
    fields: Iterable[str],
    *,
    exact: Collection[str],
    kept: Collection[str] = (),
) -> Json:
    """Merge patch that brings some fields of ``wanted`` into ``actual``; what others or defaults added to them stays.

    Args:
        actual: the object, or a part of it.
        wanted: the same as it should be.
        fields: names of the fields to compare.
        exact: fields whose maps must have no other entries than the wanted ones.
        kept: fields that stay where nothing is wanted; the others are removed.
    """
    patch: Json = {}
    for key in fields:
        have, want = actual.get(key), wanted.get(key)
        if want is None:
            if have is not None and key not in kept:
                patch[key] = None
        elif key in exact:
            if change := merge_diff(have or {}, want):
                patch[key] = change
        elif not contains(have, want):
            patch[key] = want
    return patch


def contains(actual: Any, wanted: Any) -> bool:
    """Whether every value of ``wanted`` is in ``actual``: what others added, such as defaults, does not count."""
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(
            key in actual and contains(actual[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(wanted)
            and all(contains(a, w) for a, w in zip(actual, wanted, strict=True))
        )
    return bool(actual == wanted)


# Many requests at once, but not too many.

Item = TypeVar("Item")

# Requests that are under way at once for one object.
PARALLEL = 32
# Objects that are made for one object at one look; the next look, after other objects have had their turn, goes on.
SLICE = 1000


async def for_each(work: Callable[[Item], Awaitable[None]], items: Sequence[Item]) -> list[Exception]:
    """Work on all items, a bounded number at a time; answers the errors, in order."""
    gate = asyncio.Semaphore(PARALLEL)

    async def one(item: Item) -> None:
        async with gate:
            await work(item)

    results = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, Exception):
            raise result
    return [result for result in results if isinstance(result, Exception)]


# Objects that were created and that the cache does not show yet.
#
# Only a saving of requests: what is forgotten here, by a restart for instance, is created once more and found to exist.

# After so long an object that never showed up is looked for again.
PATIENCE_SECONDS = 60.0


class Expectations:
    """Names of created objects by owner, until they are seen."""

    def __init__(self) -> None:
        self._due: dict[str, dict[str, float]] = {}

    def expect(self, owner: str, name: str, now: float) -> None:
        """``name`` is being created for ``owner``; ``now`` in monotonic seconds."""
        self._due.setdefault(owner, {})[name] = now + PATIENCE_SECONDS

    def settle(self, owner: str, name: str) -> None:
        """``name`` was seen, or was not created after all."""
        names = self._due.get(owner)
        if names is not None:
            names.pop(name, None)
            if not names:
                del self._due[owner]

    def pending(self, owner: str, now: float) -> frozenset[str]:
        """Names that are still to be seen."""
        return frozenset(name for name, due in self._due.get(owner, {}).items() if due > now)

    def forget(self, owner: str) -> None:
        """The owner is gone."""
        self._due.pop(owner, None)


class Deletions:
    """Objects that the server was asked to delete, until the watch has had time to say so.

    An informer that is a moment behind still shows them; asking again would find them gone.
    """

    def __init__(self) -> None:
        # In the order of their times, since each waits equally long.
        self._until: dict[str, float] = {}

    def note(self, uid: str, now: float) -> None:
        """The server took the request; ``now`` in monotonic seconds."""
        for old in [each for each, until in self._until.items() if until <= now]:
            del self._until[old]
        self._until.pop(uid, None)
        self._until[uid] = now + PATIENCE_SECONDS

    def pending(self, uid: str, now: float) -> bool:
        """Whether it was asked for not long ago."""
        return self._until.get(uid, now) > now


# Writing the status of an object, and seeing one's own last write before the cache shows it.

T = TypeVar("T", bound=Object)


async def write_status(client: Client, kind: Kind[T], obj: T, status: msgspec.Struct) -> T:
    """Bring the status to the server unless it is the stored one.

    Returns:
        the object as it is stored now.

    Raises:
        Conflict: the object has changed since ``obj`` was read.
    """
    before: Any = getattr(obj, "status", None)
    if status == before:
        return obj
    meta = obj.metadata
    patch = {
        "metadata": {"resourceVersion": meta.resource_version},
        "status": merge_diff(to_json(before), to_json(status)),
    }
    return await client.patch(kind, meta.name, patch, namespace=meta.namespace, subresource="status")


class LastWritten(Generic[T]):
    """Objects as this process wrote them last: newer than the cache for a moment."""

    def __init__(self) -> None:
        self._written: dict[str, T] = {}

    def keep(self, obj: T) -> None:
        """Remember an answer of the server."""
        self._written[obj.key] = obj

    def newest(self, key: str, cached: T | None) -> T | None:
        """The cached object, or the written one where the cache is behind."""
        written = self._written.get(key)
        if cached is None or written is None:
            self._written.pop(key, None)
            return cached
        if written.metadata.uid == cached.metadata.uid and _version(written) > _version(cached):
            return written
        del self._written[key]
        return cached


def _version(obj: Object) -> int:
    return whole_number(obj.metadata.resource_version) or 0


# Writes finalizers: adds one to an object, or takes one away.


async def add_finalizer(client: Client, kind: Kind[Any], obj: Object, name: str) -> None:
    """Add a finalizer to an object that lacks it; one that is gone is fine.

    Raises:
        Conflict: the object has changed since it was read.
    """
    if not has_finalizer(obj, name):
        await _write(client, kind, obj, [*(obj.metadata.finalizers or ()), name])


async def remove_finalizer(client: Client, kind: Kind[Any], obj: Object, name: str) -> None:
    """Take a finalizer from an object that has it; one that is gone is fine.

    Raises:
        Conflict: the object has changed since it was read, or another has its name.
    """
    if has_finalizer(obj, name):
        await _write(client, kind, obj, without(obj.metadata.finalizers, name))


async def _write(client: Client, kind: Kind[Any], obj: Object, finalizers: list[str] | None) -> None:
    meta = obj.metadata
    guarded = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}
    try:
        await client.patch(kind, meta.name, {"metadata": guarded}, namespace=meta.namespace)
    except NotFound:
        return


# Creates, changes and deletes single objects, and leaves those of other owners alone.

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
        existing = await client.get(kind, obj.metadata.name, obj.metadata.namespace)
    if owner_uid(existing) == owner_uid(obj) and not existing.metadata.deletion_timestamp:
        return None
    raise _occupied(kind, existing, obj)


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
    existing = await client.get(kind, meta.name, meta.namespace)
    patch = difference(to_json(existing), to_json(obj))
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
        existing = await client.get(kind, meta.name, meta.namespace)
    except NotFound:
        complete = msgspec.structs.replace(obj, data={**data, **await seed()})
        if await create_once(client, kind, complete) is not None:
            return
        existing = await client.get(kind, meta.name, meta.namespace)
    if owner_uid(existing) != owner_uid(obj) or existing.metadata.deletion_timestamp:
        raise _occupied(kind, existing, obj)
    have = to_json(existing).get("data") or {}
    if not contains(have, data):
        await client.patch(kind, meta.name, {"data": data}, namespace=meta.namespace)


def difference(actual: Json, wanted: Json) -> Json:
    """Merge patch that brings ``wanted`` into ``actual``; what others or defaults added stays, except in data maps."""
    return field_diff(actual, wanted, (key for key in wanted if key not in _ENVELOPE), exact=_EXACT)


async def delete_owned(client: Client, kind: Kind[Any], obj: Object) -> None:
    """Delete the object of that name if the same owner has made it; an absent one is fine."""
    meta = obj.metadata
    try:
        existing = await client.get(kind, meta.name, meta.namespace)
        if owner_uid(existing) == owner_uid(obj) and not existing.metadata.deletion_timestamp:
            await client.delete(kind, meta.name, meta.namespace, uid=existing.metadata.uid)
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
            existing = await client.get(kind, meta.name, meta.namespace)
        except NotFound:
            return
        if existing.metadata.uid == meta.uid:
            raise


def _occupied(kind: Kind[Any], found: Object, wanted: Object) -> UnisonoError:
    mine, theirs = controller_of(wanted), controller_of(found)
    what = f"{kind.kind.lower()} {found.key}"
    former = mine and theirs and (theirs.kind, theirs.name) == (mine.kind, mine.name)
    if found.metadata.deletion_timestamp or former:
        return BeingDeleted(f"{what} of an earlier owner is still there; waiting until it is gone.")
    return ForeignObject(f"{what} exists and belongs to something else; delete or rename it.")
