"""Writes through ``scale``: an object gets other replicas by the rules of its own kind, and they get an owner.

Who owns the replicas is recorded with the object, under its own version and path and with the subresource ``scale``;
an applied Scale is compared with these owners as if they had written Scales.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from unisono.api.documents.merge import apply_merge_patch
from unisono.api.kind import Kind
from unisono.apiserver import failures, managed_fields
from unisono.apiserver.admission import Request
from unisono.apiserver.custom import scale as scales
from unisono.apiserver.custom.scale import SCALES
from unisono.apiserver.encoding import codec
from unisono.apiserver.flow_control.turns import aside
from unisono.apiserver.managed_fields.managers import without
from unisono.apiserver.managed_fields.paths import Path, field_step
from unisono.apiserver.operations import field_owners, strategy, writes
from unisono.apiserver.operations.write_request import Write
from unisono.apiserver.patches import apply_patch, check_type
from unisono.apiserver.storage.objects import StoredEntry
from unisono.apiserver.types import PatchType, Written
from unisono.errors import Conflict

Document = dict[str, Any]
Entries = list[managed_fields.ManagerEntry]
# From the present Scale of an object to the wanted one.
Change = Callable[[Document], Document]
_REPLICAS: Path = (field_step("spec"), field_step("replicas"))


async def change(write: Write, wanted: Change) -> Written:
    """Give an object the replicas of a changed Scale, whose writer owns them then."""

    async def once(entry: StoredEntry, old: Any) -> Written:
        live = await aside(_live, write, entry)

        def own(new: Any) -> None:
            field_owners.on_update(write, entry.data, old, old.metadata.managed_fields, new, None)

        return await _write(write, entry, old, live, wanted(live), own)

    return await _again(write, once)


async def _again(write: Write, once: Callable[[StoredEntry, Any], Awaitable[Written]]) -> Written:
    """Write, and once more over what others have written while webhooks were asked."""
    context, stored = write.context, write.stored
    for attempt in range(1, writes.PATCH_ATTEMPTS + 1):
        await context.conversions.know_present(stored, write.namespace, write.name)
        entry, old = await context.load(stored, write.namespace, write.name)
        try:
            return await once(entry, old)
        except Conflict:
            if not writes.overtaken(context, entry) or attempt == writes.PATCH_ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _live(write: Write, entry: StoredEntry) -> Document:
    data = codec.as_version(entry.data, write.stored, write.kind)
    return scales.scale_of(write.kind, codec.json_value(data), strict=False)


async def patch(write: Write, change_of: Any, patch_type: PatchType) -> Written:
    """Patch the Scale of an object; ``apply`` is server-side apply."""
    check_type(write.stored, patch_type)
    if patch_type == "apply":
        return await _apply(write, change_of)
    return await change(write, partial(apply_patch, SCALES, patch=change_of, patch_type=patch_type))


async def _apply(write: Write, body: Any) -> Written:
    context, kind, stored, options = write.context, write.kind, write.stored, write.options

    async def once(entry: StoredEntry, old: Any) -> Written:
        if not isinstance(body, dict):
            raise failures.bad_request("an applied configuration must be an object")
        config = codec.accept_configuration(SCALES, SCALES, body, write.namespace, write.name)
        live = await aside(_live, write, entry)
        managed = old.metadata.managed_fields
        before = await aside(field_owners.entries_of, managed)
        data = codec.as_version(entry.data, stored, kind)
        known = before or await aside(field_owners.before_first_apply, kind, stored, data, context.now())
        path = replicas_path(kind)
        applied = managed_fields.apply(
            live,
            config,
            field_owners.schema(SCALES),
            as_scales(known, path),
            managed_fields.FieldManager(options.field_manager, "Apply", SCALES.api_version, "scale"),
            "",
            lambda each: each[0] != "f:spec",
            force=options.force,
        )

        def own(new: Any) -> None:
            field_owners.set_entries(new, managed, before, as_objects(known, applied.entries, path, kind.api_version))

        return await _write(write, entry, old, live, applied.object, own)

    return await _again(write, once)


async def _write(
    write: Write, entry: StoredEntry, old: Any, live: Document, scale: Document, own: Callable[[Any], None]
) -> Written:
    context, kind, stored = write.context, write.kind, write.stored
    name, namespace = entry.name, entry.namespace or None
    wanted = scales.patch_of(kind, name, scale)
    noted: list[str] = []
    if context.hooks.present:
        # Webhooks see a Scale, and those that ask for the object alone do not see this.
        request = _request(write, scale, live)
        noted = await context.hooks.show(request, dry_run=write.options.dry_run)
        wanted = scales.patch_of(kind, name, request.object)
    body = await aside(_scaled, kind, stored, entry.data, wanted)
    new = await writes.accept(write, body, name)
    strategy.check_place(new, stored, namespace, name)
    strategy.carry_over(new, old, stored, require_version=False)
    write.warnings[:0] = noted
    data = await writes.replace_stored(write, entry, old, new, lambda: own(new), hooked=False)
    answer = scales.scale_of(kind, codec.json_value(codec.as_version(data, stored, kind)))
    return Written(scales.encode(answer), False, write.warnings)


def _scaled(kind: Kind[Any], stored: Kind[Any], data: bytes, wanted: Document) -> Any:
    return apply_merge_patch(field_owners.plain(codec.as_version(data, stored, kind)), wanted)


def _request(write: Write, scale: Document, live: Document) -> Request:
    user, groups = write.options.user, write.options.groups
    return Request(
        "UPDATE",
        write.stored,
        write.namespace if write.stored.namespaced else None,
        write.name,
        scale,
        live,
        "scale",
        user,
        groups,
        shown_as=(SCALES.api_version, SCALES.kind),
    )


def replicas_path(kind: Kind[Any]) -> Path:
    """Where the kind keeps its replicas, as owners name it."""
    return tuple(field_step(step) for step in scales.steps(scales.paths_of(kind).spec_replicas))


def as_scales(entries: Sequence[managed_fields.ManagerEntry], path: Path) -> Entries:
    """The owners of an object's replicas (at ``path``) as owners in its Scale."""
    return [
        managed_fields.ManagerEntry(
            managed_fields.FieldManager(
                entry.writer.name, entry.writer.operation, SCALES.api_version, entry.writer.subresource
            ),
            entry.time,
            frozenset({_REPLICAS}),
        )
        for entry in entries
        if path in entry.fields
    ]


def as_objects(
    before: Sequence[managed_fields.ManagerEntry],
    after: Sequence[managed_fields.ManagerEntry],
    path: Path,
    version: str,
) -> Entries:
    """The owners of an object after its Scale was applied.

    Args:
        before: the owners before.
        after: the owners in the Scale.
        path: of the replicas in the object.
        version: apiVersion of the object, for new owners.

    """
    left = {_name(entry): entry for entry in after}
    kept: Entries = []
    for entry in before:
        if path in entry.fields and left.pop(_name(entry), None) is None:
            kept += without([entry], {path})
        else:
            kept.append(entry)
    for name, entry in left.items():
        writer = managed_fields.FieldManager(name[0], entry.writer.operation, version, name[2])
        kept.append(managed_fields.ManagerEntry(writer, entry.time, frozenset({path})))
    return kept


def _name(entry: managed_fields.ManagerEntry) -> tuple[str, str, str]:
    return entry.writer.name, entry.writer.operation, entry.writer.subresource
