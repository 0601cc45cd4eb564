"""Create, update, patch and apply: decode, default, admit, validate, store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from unisono.api import field_error
from unisono.api.base import Object
from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.defaulting import apply_defaults
from unisono.api.documents import apply_json_patch, apply_merge_patch, apply_strategic_patch
from unisono.api.kind import Kind
from unisono.api.schema import schema_of
from unisono.api.validation import validate
from unisono.apiserver import encoding, failures, managed_fields
from unisono.apiserver.admission import Request
from unisono.apiserver.custom.kinds import CustomKind, is_custom
from unisono.apiserver.custom.rules import check_object, check_schemas
from unisono.apiserver.failures import bad_request, unsupported_media_type
from unisono.apiserver.flow_control import HEAVY_BYTES, aside, is_heavy, weigh
from unisono.apiserver.operations import field_owners, strategy
from unisono.apiserver.operations.context import Context, Write
from unisono.apiserver.operations.deletion import removable
from unisono.apiserver.storage.objects import StoredEntry
from unisono.apiserver.types import PatchType, WriteOptions, Written
from unisono.errors import ApiError, Conflict, NotFound

# The patch types of the Kubernetes API, as pure functions on decoded JSON.

_JSON = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"


def media_types(kind: Kind[Any]) -> tuple[str, ...]:
    """Content types of patches that the kind accepts; strategic merge is for built-in kinds, as on a real server."""
    return (_JSON, _MERGE, _APPLY) if is_custom(kind) else (_JSON, _MERGE, _STRATEGIC, _APPLY)


def check_type(kind: Kind[Any], patch_type: PatchType) -> None:
    """Refuse a type of patch that the kind does not take, whether or not the object is there.

    Raises:
        ApiError: 415.
    """
    if patch_type == "strategic" and is_custom(kind):
        raise unsupported_media_type(media_types(kind))


def apply_patch(kind: Kind[Any], current: dict[str, Any], patch: Any, patch_type: PatchType) -> dict[str, Any]:
    """The patched object; ``current`` and ``patch`` are not changed.

    Raises:
        ApiError: 400 for a malformed patch, 415 for a type that the kind does not accept.
        Invalid: the patch does not fit this object.
    """
    try:
        patched = _patched(kind, current, patch, patch_type)
    except RecursionError:
        raise bad_request("the patch is nested too deeply") from None
    if not isinstance(patched, dict):
        raise bad_request("the patch does not leave an object")
    return patched


def _patched(kind: Kind[Any], current: dict[str, Any], patch: Any, patch_type: PatchType) -> Any:
    if patch_type == "json":
        return apply_json_patch(current, patch)
    if patch_type == "merge" or (patch_type == "strategic" and not is_custom(kind)):
        if not isinstance(patch, dict):
            raise bad_request("a patch of this type must be a JSON object")
        if patch_type == "merge":
            return apply_merge_patch(current, patch)
        return apply_strategic_patch(current, patch, schema_of(kind))
    raise unsupported_media_type(media_types(kind))


LARGEST_OBJECT = 1536 * 1024
"""Bytes of a stored object, as in etcd."""
_NAME_ATTEMPTS = 8
PATCH_ATTEMPTS = 5


async def create(write: Write, body: dict[str, Any]) -> Written:
    """Store a new object; see ``ObjectService.create``."""
    kind, stored, options = write.kind, write.stored, write.options
    obj = await accept(write, body, _name_in(body))
    strategy.check_place(obj, stored, write.namespace, None)

    def own() -> None:
        field_owners.on_create(kind, stored, obj, body, options, write.context.now())

    return write.answer(await store_new(write, obj, own), created=True)


async def accept(write: Write, body: dict[str, Any], name: str) -> Any:
    """The object of a request's body; ``write.warnings`` are those about the body then."""
    obj, write.warnings[:] = await aside(encoding.accept, write.kind, write.stored, body, write.options, name)
    return obj


@contextmanager
def _telling(warnings: list[str]) -> Iterator[None]:
    """Have a failure carry the warnings that a success would."""
    try:
        yield
    except ApiError as error:
        error.warnings = tuple(warnings)
        raise


async def store_new(write: Write, obj: Any, own: Callable[[], None]) -> bytes:
    """Complete, admit and store a new object; ``own`` is called when its owners can be recorded."""
    context, stored = write.context, write.stored
    with _telling(write.warnings):
        generated = not obj.metadata.name and bool(obj.metadata.generate_name)
        strategy.begin(obj, stored, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)
        if not obj.metadata.name:
            error = field_error.required("metadata.name", "name or generateName is required")
            raise failures.invalid(stored, "", [error])
        strategy.begin_status(obj, stored)
        context.admission.prepare(write.request("CREATE", obj, None), context)
        # Its creator owns the defaults too, but nothing that admission adds.
        apply_defaults(stored, obj)
        await aside(own)
        obj = await _admit(write, write.request("CREATE", obj, None))
        _make_unique(context, stored, obj, generated=generated)
        data = encoding.render(obj) if write.options.dry_run else (await context.put(stored, obj, 0))[0].data
        return await context.conversions.shown(stored, data)


async def update(write: Write, body: dict[str, Any]) -> Written:
    """Replace an object or its status; see ``ObjectService.update``."""
    context, stored = write.context, write.stored
    check_subresource(stored, write.subresource)
    await context.conversions.know_present(stored, write.namespace, write.name)
    entry, old = await context.load(stored, write.namespace, write.name)
    new = await accept(write, body, write.name)
    strategy.check_place(new, stored, write.namespace, write.name)
    strategy.carry_over(new, old, stored, require_version=is_custom(stored), replacing=True)
    return write.answer(await replace_stored(write, entry, old, new, _updater(write, entry, old, new)))


async def patch(write: Write, change: Any, patch_type: PatchType) -> Written:
    """Patch an object or its status; see ``ObjectService.patch``."""
    context, stored = write.context, write.stored
    check_type(stored, patch_type)
    check_subresource(stored, write.subresource)
    for attempt in range(1, PATCH_ATTEMPTS + 1):
        await context.conversions.know_present(stored, write.namespace, write.name)
        entry, old = await context.load(stored, write.namespace, write.name)
        # What a patch copies may be larger than itself and the object.
        weigh(HEAVY_BYTES + 1 if patch_type == "json" and _copies(change) else 0)
        try:
            return await _patch(write, entry, old, change, patch_type)
        except Conflict:
            # While webhooks were asked, another client has written: the patch is for the object as it is now.
            if not overtaken(context, entry) or attempt == PATCH_ATTEMPTS or _names_version(change):
                raise
    raise AssertionError("unreachable")


def overtaken(context: Context, entry: StoredEntry) -> bool:
    """Whether an object has been written, and not deleted, since ``entry`` was read."""
    present = context.store.latest(entry.key)
    return present is not None and present.revision != entry.revision


def _copies(change: Any) -> bool:
    return any(isinstance(each, dict) and each.get("op") == "copy" for each in change)


def _names_version(change: Any) -> bool:
    """Whether a patch is meant for one version of the object only."""
    if isinstance(change, dict):
        meta = change.get("metadata")
        return isinstance(meta, dict) and bool(meta.get("resourceVersion"))
    return any(isinstance(each, dict) and each.get("path") == "/metadata/resourceVersion" for each in change)


async def _patch(write: Write, entry: StoredEntry, old: Any, change: Any, patch_type: PatchType) -> Written:
    stored = write.stored
    body = await aside(_patched_object, write, entry.data, old, change, patch_type)
    new = await accept(write, body, entry.name)
    strategy.check_place(new, stored, entry.namespace or None, entry.name)
    strategy.carry_over(new, old, stored, require_version=False)
    return write.answer(await replace_stored(write, entry, old, new, _updater(write, entry, old, new)))


def _patched_object(write: Write, data: bytes, old: Any, change: Any, patch_type: PatchType) -> dict[str, Any]:
    kind, stored = write.kind, write.stored
    # The owners of fields are much to carry through a patch; only one that speaks of them gets to see them.
    if field_owners.mentioned(change):
        current = encoding.json_value(encoding.as_version(data, stored, kind))
    else:
        current = field_owners.seen(kind, stored, data, old)
    body: dict[str, Any] = apply_patch(stored, current, change, patch_type)
    if write.subresource == "status" and not isinstance(stored, CustomKind):
        return _without_kept(current, body)
    return body


def _without_kept(current: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """A body for ``status`` without what it leaves as it is: that comes from the old object, and is not read again."""
    kept = {"apiVersion", "kind", "metadata", "status"}
    return {key: value for key, value in body.items() if key in kept or value != current.get(key)}


def _updater(write: Write, entry: StoredEntry, old: Any, new: Any) -> Callable[[], None]:
    requested, managed = new.metadata.managed_fields, old.metadata.managed_fields

    def own() -> None:
        field_owners.on_update(write, entry.data, old, managed, new, requested)

    return own


async def replace_stored(
    write: Write, entry: StoredEntry, old: Any, new: Any, own: Callable[[], None], *, hooked: bool = True
) -> bytes:
    """Admit and store a changed object; ``own`` is called when its owners can be recorded.

    Without ``hooked`` no webhooks are asked: they have been shown what the writer sent.
    """
    context, stored = write.context, write.stored
    # A Scale is written as a change of the whole object.
    subresource = "" if write.subresource == "scale" else write.subresource
    with _telling(write.warnings):
        _check_finalizers(stored, old, new)
        strategy.confine(new, old, stored, subresource, custom=is_custom(stored))
        apply_defaults(stored, new)
        await aside(own)
        request = write.request("UPDATE", new, old, subresource)
        storing = await _admit(write, request, hooked=hooked)
        new = request.object
        if strategy.has_generation(stored) and strategy.specification_changed(new, old, stored):
            new.metadata.generation = storing.metadata.generation = (old.metadata.generation or 0) + 1
        if new == old:
            return entry.data
        if write.options.dry_run:
            data = encoding.render(storing)
        else:
            change = context.change(stored, storing, entry.revision, delete=removable(storing))
            data = (await context.commit(stored, [change]))[0].data
        return await context.conversions.shown(stored, data)


async def _admit(write: Write, request: Request, *, hooked: bool = True) -> Any:
    """Complete and check an object, ``request.object``; answers it as it is to be stored. Only webhooks take time."""
    context, hooks, dry_run = write.context, write.context.hooks, write.options.dry_run
    context.admission.mutate(request, context)
    if hooked and hooks.wanted(request, changing=True):
        asked = await hooks.mutate(request, dry_run=dry_run)
        write.warnings.extend(asked.warnings)
        if asked.changed is not None:
            _take_over(request, asked.changed)
    if isinstance(request.kind, CustomKind):
        # Rules may take long on small objects as well.
        ruled = request.kind.node.has_rules
        errors = await aside(check_object, request.kind, request.object, request.old, always=ruled)
    else:
        errors = await aside(validate, request.kind, request.object, request.old)
        if not errors and isinstance(request.object, CustomResourceDefinition) and not request.subresource:
            errors = await aside(check_schemas, request.object)
    if errors:
        raise failures.invalid(request.kind, request.name, errors)
    if hooked and hooks.wanted(request, changing=False):
        write.warnings.extend(await hooks.check(request, dry_run=dry_run))
    write.warnings.extend(await context.admission.advice(request))
    storing = await context.conversions.for_storing(request.object)
    if is_heavy():
        _check_size(await aside(encoding.render, storing))
    context.admission.check(request, context)
    write.warnings.extend(context.admission.warnings(request, context))
    return storing


def _check_size(data: bytes) -> None:
    if len(data) > LARGEST_OBJECT:
        message = f"Request entity too large: the object has {len(data)} bytes, limit is {LARGEST_OBJECT}"
        raise ApiError(message, code=413, reason="RequestEntityTooLarge")


def _take_over(request: Request, changed: dict[str, Any]) -> None:
    """Go on with an object as webhooks have changed it; what only the server decides stays as it was."""
    kind, before = request.kind, request.object
    new, _ = encoding.accept(kind, kind, changed, WriteOptions(field_validation="Ignore"), request.name)
    strategy.check_place(new, kind, before.metadata.namespace, before.metadata.name)
    server = ("uid", "resource_version", "generation", "creation_timestamp", "deletion_timestamp", "managed_fields")
    for name in (*server, "deletion_grace_period_seconds", "generate_name", "self_link"):
        setattr(new.metadata, name, getattr(before.metadata, name))
    if request.old is not None:
        strategy.confine(new, request.old, kind, request.subresource, custom=is_custom(kind))
    elif kind.status_subresource and kind.resource != "nodes" and hasattr(before, "status"):
        new.status = before.status
    apply_defaults(kind, new)
    request.object = new


def _make_unique(context: Context, stored: Kind[Any], obj: Object, *, generated: bool) -> None:
    meta = obj.metadata
    for _ in range(_NAME_ATTEMPTS):
        if context.store.latest(context.key(stored, meta.namespace, meta.name)) is None:
            return
        if not generated:
            break
        meta.name = strategy.generated_name(meta.generate_name or "", context.new_suffix())
    raise failures.already_exists(stored, meta.name)


def _check_finalizers(stored: Kind[Any], old: Object, new: Object) -> None:
    if old.metadata.deletion_timestamp is None:
        return
    added = sorted(set(new.metadata.finalizers or ()) - set(old.metadata.finalizers or ()))
    if added:
        listed = ", ".join(f'"{one}"' for one in added)
        detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
        why = f"{detail}[]string{{{listed}}}"
        raise failures.invalid(stored, old.metadata.name, [field_error.forbidden("metadata.finalizers", why)])


def check_subresource(stored: Kind[Any], subresource: str) -> None:
    """404 for a subresource that the kind does not have."""
    if subresource and not (subresource == "status" and stored.status_subresource):
        raise NotFound("the server could not find the requested resource")


def _name_in(body: dict[str, Any]) -> str:
    meta = body.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else ""


# Server-side apply on stored objects: creates what is absent, and changes what the configuration says.


async def apply(write: Write, body: Any) -> Written:
    """Apply a configuration to an object or its status; see ``ObjectService.patch``."""
    kind, stored, namespace, name = write.kind, write.stored, write.namespace, write.name
    check_subresource(stored, write.subresource)
    if not isinstance(body, dict):
        raise failures.bad_request("an applied configuration must be an object")
    config = await aside(encoding.accept_configuration, kind, stored, body, namespace, name)
    _place(config, kind, namespace, name)
    present = write.context.store.latest(write.context.key(stored, namespace, name)) is not None
    if not present and write.subresource:
        raise failures.not_found(stored, name)
    try:
        return await _change(write, config) if present else await _create(write, config)
    except RecursionError:
        raise failures.bad_request("the configuration is nested too deeply") from None


async def _create(write: Write, config: dict[str, Any]) -> Written:
    kind, stored = write.kind, write.stored
    meta = config["metadata"]
    if meta.get("uid") or meta.get("resourceVersion"):
        # It was made from an object that has gone since.
        raise failures.conflict(stored, write.name)
    door = field_owners.ignored(stored, "")
    writer = managed_fields.FieldManager(write.options.field_manager, "Apply", kind.api_version)
    start = {**field_owners.empty(stored), "apiVersion": kind.api_version, "kind": kind.kind}
    schema = field_owners.schema(kind, stored)
    applied = await aside(managed_fields.apply, start, config, schema, [], writer, write.context.now(), door)
    new = await _accept(write, applied)

    def own() -> None:
        new.metadata.managed_fields = managed_fields.write_entries(applied.entries)

    return write.answer(await store_new(write, new, own), created=True)


async def _change(write: Write, config: dict[str, Any]) -> Written:
    context, kind, stored, subresource = write.context, write.kind, write.stored, write.subresource
    await context.conversions.know_present(stored, write.namespace, write.name)
    entry, old = await context.load(stored, write.namespace, write.name)
    writer = managed_fields.FieldManager(write.options.field_manager, "Apply", kind.api_version, subresource)
    now, force = context.now(), write.options.force

    def merge() -> tuple[list[managed_fields.ManagerEntry], managed_fields.Applied]:
        before = field_owners.entries_of(old.metadata.managed_fields)
        live = field_owners.plain(encoding.as_version(entry.data, stored, kind))
        schema, door = field_owners.schema(kind, stored), field_owners.ignored(stored, subresource)
        empty = field_owners.empty(stored)
        return before, managed_fields.apply(live, config, schema, before, writer, now, door, empty=empty, force=force)

    before, applied = await aside(merge)
    new = await _accept(write, applied)
    strategy.carry_over(new, old, stored, require_version=False)

    def own() -> None:
        field_owners.set_entries(new, old.metadata.managed_fields, before, applied.entries)

    return write.answer(await replace_stored(write, entry, old, new, own))


async def _accept(write: Write, applied: managed_fields.Applied) -> Any:
    # The configuration has been checked; what is left is what the stored object has.
    lenient = replace(write.options, field_validation="Ignore")
    new, _ = await aside(encoding.accept, write.kind, write.stored, applied.object, lenient, write.name)
    strategy.check_place(new, write.stored, write.namespace, write.name)
    return new


def _place(config: dict[str, Any], kind: Kind[Any], namespace: str | None, name: str) -> None:
    """The URL says which object is meant; the configuration may repeat it."""
    meta = config.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise failures.bad_request("metadata must be an object")
    meta.setdefault("name", name)
    if kind.namespaced and namespace:
        meta.setdefault("namespace", namespace)
