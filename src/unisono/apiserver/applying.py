"""Server-side apply on stored objects: creates what is absent, and changes what the configuration says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unisono.api.kind import Kind
from unisono.apiserver import codec, failures, field_owners, managed_fields, metadata, writes
from unisono.apiserver.aside import aside
from unisono.apiserver.context import Context
from unisono.apiserver.types import WriteOptions, Written


async def apply(
    context: Context,
    kind: Kind[Any],
    namespace: str | None,
    name: str,
    body: Any,
    options: WriteOptions,
    subresource: str,
) -> Written:
    """Apply a configuration to an object or its status; see ``ObjectService.patch``."""
    stored = context.stored_kind(kind)
    writes.check_subresource(stored, subresource)
    if not isinstance(body, dict):
        raise failures.bad_request("an applied configuration must be an object")
    config = await aside(codec.accept_configuration, kind, stored, body, namespace, name)
    _place(config, kind, namespace, name)
    present = context.store.latest(context.key(stored, namespace, name)) is not None
    if not present and subresource:
        raise failures.not_found(stored, name)
    try:
        if present:
            return await _change(context, kind, stored, namespace, name, config, options, subresource)
        return await _create(context, kind, stored, namespace, name, config, options)
    except RecursionError:
        raise failures.bad_request("the configuration is nested too deeply") from None


async def _create(
    context: Context,
    kind: Kind[Any],
    stored: Kind[Any],
    namespace: str | None,
    name: str,
    config: dict[str, Any],
    options: WriteOptions,
) -> Written:
    meta = config["metadata"]
    if meta.get("uid") or meta.get("resourceVersion"):
        # It was made from an object that has gone since.
        raise failures.conflict(stored, name)
    door = field_owners.ignored(stored, "")
    writer = managed_fields.Writer(options.field_manager, "Apply", kind.api_version)
    start = {**field_owners.empty(stored), "apiVersion": kind.api_version, "kind": kind.kind}
    schema = field_owners.schema(kind, stored)
    applied = await aside(managed_fields.apply, start, config, schema, [], writer, context.now(), door)
    new, _ = await aside(codec.accept, kind, stored, applied.object, _lenient(options), name)
    metadata.check_place(new, stored, namespace, name)

    def own() -> None:
        new.metadata.managed_fields = managed_fields.write_entries(applied.entries)

    warnings: list[str] = []
    data = await writes.store_new(context, stored, new, options, own, warnings)
    return Written(codec.as_version(data, stored, kind), True, warnings)


async def _change(
    context: Context,
    kind: Kind[Any],
    stored: Kind[Any],
    namespace: str | None,
    name: str,
    config: dict[str, Any],
    options: WriteOptions,
    subresource: str,
) -> Written:
    await context.conversions.know_present(stored, namespace, name)
    entry, old = await context.load(stored, namespace, name)
    writer = managed_fields.Writer(options.field_manager, "Apply", kind.api_version, subresource)
    now = context.now()

    def merge() -> tuple[list[managed_fields.Entry], managed_fields.Applied]:
        before = field_owners.entries_of(old.metadata.managed_fields)
        live = field_owners.plain(codec.as_version(entry.data, stored, kind))
        schema, door = field_owners.schema(kind, stored), field_owners.ignored(stored, subresource)
        empty = field_owners.empty(stored)
        applied = managed_fields.apply(
            live, config, schema, before, writer, now, door, empty=empty, force=options.force
        )
        return before, applied

    before, applied = await aside(merge)
    new, _ = await aside(codec.accept, kind, stored, applied.object, _lenient(options), name)
    metadata.check_place(new, stored, namespace, name)
    metadata.carry_over(new, old, stored, require_version=False)

    def own() -> None:
        field_owners.set_entries(new, old.metadata.managed_fields, before, applied.entries)

    warnings: list[str] = []
    data = await writes.replace(context, stored, entry, old, new, options, subresource, own, warnings)
    return Written(codec.as_version(data, stored, kind), False, warnings)


def _place(config: dict[str, Any], kind: Kind[Any], namespace: str | None, name: str) -> None:
    """The URL says which object is meant; the configuration may repeat it."""
    meta = config.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise failures.bad_request("metadata must be an object")
    meta.setdefault("name", name)
    if kind.namespaced and namespace:
        meta.setdefault("namespace", namespace)


def _lenient(options: WriteOptions) -> WriteOptions:
    # The configuration has been checked; what is left is what the stored object has.
    return replace(options, field_validation="Ignore")
