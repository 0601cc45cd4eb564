"""Writes through ``scale``: an object gets other replicas by the rules of its own kind, and they get an owner.

Who owns the replicas is recorded with the object, under its own version and path and with the subresource ``scale``;
an applied Scale is compared with these owners as if they had written Scales.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from unisono.api.kind import Kind
from unisono.apiserver import codec, failures, field_owners, metadata, ownership, writes
from unisono.apiserver.context import Context
from unisono.apiserver.custom import scale as scales
from unisono.apiserver.custom.scale_kind import SCALES
from unisono.apiserver.ownership.managers import without
from unisono.apiserver.ownership.paths import Path, field
from unisono.apiserver.patches import apply_patch, check_type
from unisono.apiserver.patches.merge import apply_merge_patch
from unisono.apiserver.types import PatchType, WriteOptions, Written

Document = dict[str, Any]
Entries = list[ownership.Entry]
# From the present Scale of an object to the wanted one.
Change = Callable[[Document], Document]
_REPLICAS: Path = (field("spec"), field("replicas"))


async def change(
    context: Context,
    kind: Kind[Any],
    namespace: str | None,
    name: str,
    wanted: Change,
    options: WriteOptions,
) -> Written:
    """Give an object the replicas of a changed Scale, whose writer owns them then."""
    stored = context.stored_kind(kind)
    await context.conversions.know_present(stored, namespace, name)
    entry, old = context.current(stored, namespace, name)
    data = codec.as_version(entry.data, stored, kind)
    scale = wanted(scales.scale_of(kind, codec.json_value(data), strict=False))

    def own(new: Any) -> None:
        field_owners.on_update(
            kind, stored, entry.data, old, old.metadata.managed_fields, new, None, options, "scale", context.now()
        )

    return await _write(context, kind, stored, namespace, name, scale, options, own)


async def patch(
    context: Context,
    kind: Kind[Any],
    namespace: str | None,
    name: str,
    change_of: Any,
    patch_type: PatchType,
    options: WriteOptions,
) -> Written:
    """Patch the Scale of an object; ``apply`` is server-side apply."""
    check_type(context.stored_kind(kind), patch_type)
    if patch_type == "apply":
        return await _apply(context, kind, namespace, name, change_of, options)
    wanted = partial(apply_patch, SCALES, patch=change_of, patch_type=patch_type)
    return await change(context, kind, namespace, name, wanted, options)


async def _apply(
    context: Context, kind: Kind[Any], namespace: str | None, name: str, body: Any, options: WriteOptions
) -> Written:
    stored = context.stored_kind(kind)
    await context.conversions.know_present(stored, namespace, name)
    entry, old = context.current(stored, namespace, name)
    if not isinstance(body, dict):
        raise failures.bad_request("an applied configuration must be an object")
    config = codec.accept_configuration(SCALES, SCALES, body, namespace, name)
    data = codec.as_version(entry.data, stored, kind)
    live = scales.scale_of(kind, codec.json_value(data), strict=False)
    managed = old.metadata.managed_fields
    before = field_owners.entries_of(managed)
    known = before or field_owners.before_first_apply(kind, stored, data, context.now())
    path = replicas_path(kind)
    applied = ownership.apply(
        live,
        config,
        field_owners.schema(SCALES),
        as_scales(known, path),
        ownership.Writer(options.field_manager, "Apply", SCALES.api_version, "scale"),
        "",
        lambda each: each[0] != "f:spec",
        force=options.force,
    )

    def own(new: Any) -> None:
        field_owners.set_entries(new, managed, before, as_objects(known, applied.entries, path, kind.api_version))

    return await _write(context, kind, stored, namespace, name, applied.object, options, own)


async def _write(
    context: Context,
    kind: Kind[Any],
    stored: Kind[Any],
    namespace: str | None,
    name: str,
    scale: Document,
    options: WriteOptions,
    own: Callable[[Any], None],
) -> Written:
    entry, old = context.current(stored, namespace, name)
    wanted = scales.patch_of(kind, name, scale)
    body = apply_merge_patch(field_owners.plain(codec.as_version(entry.data, stored, kind)), wanted)
    new, warnings = codec.accept(kind, stored, body, options, name)
    metadata.check_place(new, stored, namespace, name)
    metadata.carry_over(new, old, stored, require_version=False)
    data = await writes.replace(context, stored, entry, old, new, options, "", lambda: own(new), warnings)
    answer = scales.scale_of(kind, codec.json_value(codec.as_version(data, stored, kind)))
    return Written(scales.encode(answer), False, warnings)


def replicas_path(kind: Kind[Any]) -> Path:
    """Where the kind keeps its replicas, as owners name it."""
    return tuple(field(step) for step in scales.steps(scales.paths_of(kind).spec_replicas))


def as_scales(entries: Sequence[ownership.Entry], path: Path) -> Entries:
    """The owners of an object's replicas (at ``path``) as owners in its Scale."""
    return [
        ownership.Entry(
            ownership.Writer(entry.writer.name, entry.writer.operation, SCALES.api_version, entry.writer.subresource),
            entry.time,
            frozenset({_REPLICAS}),
        )
        for entry in entries
        if path in entry.fields
    ]


def as_objects(
    before: Sequence[ownership.Entry], after: Sequence[ownership.Entry], path: Path, version: str
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
        writer = ownership.Writer(name[0], entry.writer.operation, version, name[2])
        kept.append(ownership.Entry(writer, entry.time, frozenset({path})))
    return kept


def _name(entry: ownership.Entry) -> tuple[str, str, str]:
    return entry.writer.name, entry.writer.operation, entry.writer.subresource
