"""Keeps ``metadata.managedFields`` right when objects are written: between structs and the pure rules of ``ownership``.

What is recorded, and when nothing is: decision 5 in ``docs/decisions``.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from functools import lru_cache
from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.apiserver import encoding, managed_fields
from unisono.apiserver.custom.definitions import paths_of, steps
from unisono.apiserver.custom.kinds import CustomObject, is_custom, schema_for
from unisono.apiserver.encoding import view_of
from unisono.apiserver.managed_fields.managers import Ignored, Kept, outline, telling
from unisono.apiserver.managed_fields.paths import Path, Paths
from unisono.apiserver.operations.context import Write
from unisono.apiserver.types import WriteOptions
from unisono.errors import ApiError

Managed = list[dict[str, Any]] | None
# What Kubernetes' structs always have: creating an object makes no one its owner.
_ALWAYS: dict[str, dict[str, Any]] = {"metadata": {}, "spec": {}, "status": {}}
_ALWAYS_IN_PODS: dict[str, dict[str, Any]] = {**_ALWAYS, "spec": {"containers": []}}
# What a real server adds in admission, which owns nothing; here it comes with the defaults.
_GIVEN_BY_SERVER: dict[str, tuple[str, ...]] = {
    "pods": ("serviceAccount", "serviceAccountName", "tolerations"),
    "namespaces": ("finalizers",),
}
# What creators own, by kind and outline: pods of one template have the same fields.
_created: Kept[Paths] = Kept(512, largest=500)
# What the server alone decides says nothing about owners.
_SERVERS: dict[str, Any] = {
    "name": "",
    "namespace": None,
    "uid": None,
    "resource_version": None,
    "generation": None,
    "creation_timestamp": None,
    "self_link": None,
    "managed_fields": None,
}


def schema(kind: Kind[Any], stored: Kind[Any] | None = None) -> dict[str, Any]:
    """How the fields of a kind merge; of one that is ``stored`` as another, in its own words."""
    return schema_for(kind if stored is None or view_of(kind) is not None else stored)


def empty(kind: Kind[Any]) -> dict[str, Any]:
    """An object of the kind of which nothing has been written."""
    return _ALWAYS_IN_PODS if kind.resource == "pods" else _ALWAYS


def plain(data: bytes) -> dict[str, Any]:
    """Encoded object as JSON values, without ``managedFields``."""
    value: dict[str, Any] = encoding.json_value(data)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return value


def seen(kind: Kind[Any], stored: Kind[Any], data: bytes, obj: Object) -> dict[str, Any]:
    """A stored object, encoded and decoded, as ``kind`` shows it, without ``managedFields``."""
    if view_of(kind) is not None or isinstance(obj, CustomObject):
        return plain(encoding.as_version(data, stored, kind))
    value = _plain_struct(obj)
    value["apiVersion"] = kind.api_version
    return value


def _plain_struct(obj: Object) -> dict[str, Any]:
    if obj.metadata.managed_fields:
        obj = _with_metadata(obj, managed_fields=None)
    value: dict[str, Any] = encoding.json_value(encoding.render(obj))
    return value


def _with_metadata(obj: Object, **fields: Any) -> Object:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, **fields))


def mentioned(patch: Any) -> bool:
    """Whether a patch may touch ``managedFields``."""
    if isinstance(patch, dict):
        metadata = patch.get("metadata")
        return "$patch" in patch or (
            isinstance(metadata, dict) and ("managedFields" in metadata or "$patch" in metadata)
        )
    # A JSON patch may test, copy or replace whatever holds them.
    return any(
        not isinstance(one, dict)
        or str(one.get(key, "/-")).split("/")[1:3] in ([], ["metadata"], ["metadata", "managedFields"])
        for one in (patch if isinstance(patch, list) else [patch])
        for key in ("path", "from")
    )


def ignored(kind: Kind[Any], subresource: str) -> Ignored:
    """Which fields this door does not write."""
    if subresource == "scale":
        replicas = tuple(f"f:{step}" for step in steps(paths_of(kind).spec_replicas))
        return lambda path: path != replicas
    if subresource == "status":
        written = {"f:status"} if is_custom(kind) else {"f:status", "f:metadata"}
        return lambda path: path[0] not in written
    if kind.status_subresource:
        return lambda path: path[0] == "f:status"
    return _nothing


def _nothing(_: Path) -> bool:
    return False


def entries_of(managed: Managed) -> list[managed_fields.ManagerEntry]:
    """The entries; none when they cannot be read, as on a real server."""
    try:
        return managed_fields.read_entries(managed)
    except ValueError:
        return []


def before_first_apply(kind: Kind[Any], stored: Kind[Any], data: bytes, now: str) -> list[managed_fields.ManagerEntry]:
    """The owner that an object of which no owners were recorded has when it is applied to."""
    writer = managed_fields.FieldManager(managed_fields.BEFORE, "Update", kind.api_version)
    return managed_fields.record(empty(stored), plain(data), schema(stored), [], writer, now, _nothing)


def _seen(kind: Kind[Any], stored: Kind[Any], obj: Object) -> bytes:
    """An object as its writer sees it."""
    if isinstance(obj, CustomObject):
        return obj.encoded()
    data = encoding.render(obj)
    return encoding.as_version(data, stored, kind) if view_of(kind) is not None else data


def on_create(
    kind: Kind[Any], stored: Kind[Any], obj: Object, body: dict[str, Any], options: WriteOptions, now: str
) -> None:
    """Record the creator of a new object as the owner of all its fields.

    Args:
        kind: as the creator names it.
        stored: as it is stored.
        obj: the object, with defaults.
        body: what the creator sent.
        options: name the creator.
        now: RFC 3339.
    """
    obj.metadata.managed_fields = None
    if not options.track_fields:
        return
    writer = managed_fields.FieldManager(options.field_manager or "unknown", "Update", kind.api_version)
    status, given = ignored(stored, ""), body.get("spec")
    added = {
        ("f:spec", f"f:{name}")
        for name in _GIVEN_BY_SERVER.get(stored.resource, ())
        if not isinstance(given, dict) or name not in given
    }

    def door(path: Path) -> bool:
        return status(path) or path[:2] in added

    def find() -> Paths:
        entries = managed_fields.record(
            empty(stored), plain(_seen(kind, stored, obj)), schema(kind, stored), [], writer, now, door
        )
        return entries[0].fields if entries else frozenset()

    try:
        if isinstance(obj, CustomObject) or view_of(kind) is not None:
            held = find()
        else:
            held = _created.answer((kind.api_version, kind.kind, frozenset(added), _outline(kind, obj)), find)
    except ApiError:
        # Validation, which comes next, says better what is wrong with such an object.
        return
    obj.metadata.managed_fields = managed_fields.write_entries(
        [managed_fields.ManagerEntry(writer, now, held)] if held else []
    )


def _outline(kind: Kind[Any], obj: Object) -> Hashable:
    return outline(encoding.json_value(encoding.render(_with_metadata(obj, **_SERVERS))), _telling(kind))


@lru_cache(maxsize=256)
def _telling(kind: Kind[Any]) -> frozenset[str]:
    return telling(schema(kind))


def on_update(write: Write, data: bytes, old: Object, managed: Managed, new: Object, requested: Managed) -> None:
    """Record the writer of a changed object as the owner of what it changed.

    An object without owners stays without until a client applies to it.

    Args:
        write: names the kind, the subresource and the writer.
        data: the stored object.
        old: the same, decoded.
        managed: its ``managedFields``.
        new: the object to store; its ``managedFields`` are set.
        requested: ``managedFields`` in the request: None keeps them, ``[]`` or ``[{}]`` forgets all owners.
    """
    kind, stored, subresource = write.kind, write.stored, write.subresource
    new.metadata = copy.copy(new.metadata)
    new.metadata.managed_fields = managed
    base = managed
    if requested is not None and not subresource and requested != managed:
        if requested in ([], [{}]):
            base = None
        elif entries_of(requested):
            base = requested
    if not base:
        new.metadata.managed_fields = base
        return
    manager = write.options.field_manager or "unknown"
    writer = managed_fields.FieldManager(manager, "Update", kind.api_version, subresource)
    # Kubernetes records no time for a Scale.
    now = "" if subresource == "scale" else write.context.now()
    entries = entries_of(base)
    door = ignored(stored, subresource)
    try:
        if view_of(kind) is not None or isinstance(old, CustomObject):
            before, after = plain(encoding.as_version(data, stored, kind)), plain(_seen(kind, stored, new))
        else:
            before, after = _changed(old, new)
        changed = managed_fields.record(before, after, schema(kind, stored), entries, writer, now, door)
    except ApiError:
        return
    set_entries(new, base, entries, changed)


def _changed(old: Object, new: Object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both objects without what they have in common, as far as that is cheap to find out."""
    begun = {name: getattr(_begun(type(new)), name) for name in _alike(old, new)}
    before, after = (
        _plain_struct(msgspec.structs.replace(one, **begun, metadata=msgspec.structs.replace(one.metadata, **_SERVERS)))
        for one in (old, new)
    )
    return before, after


def _alike(old: Object, new: Object) -> list[str]:
    kept = ("api_version", "kind", "metadata")
    return [name for name in new.__struct_fields__ if name not in kept and getattr(old, name) == getattr(new, name)]


@lru_cache(maxsize=256)
def _begun(struct: type[Object]) -> Object:
    return struct()


def set_entries(
    new: Object, managed: Managed, before: list[managed_fields.ManagerEntry], after: list[managed_fields.ManagerEntry]
) -> None:
    """Give ``new`` the entries ``after``; where they are as ``before``, they stay as ``managed`` has them.

    Byte by byte, because a write that changes nothing must be recognised as none.
    """
    new.metadata = copy.copy(new.metadata)
    same = len(before) == len(after) and set(before).issuperset(after)
    new.metadata.managed_fields = managed if same else managed_fields.write_entries(after)
