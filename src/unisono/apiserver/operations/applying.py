"""Server-side apply on stored objects: creates what is absent, and changes what the configuration says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unisono.api.kind import Kind
from unisono.apiserver import failures, managed_fields
from unisono.apiserver.encoding import codec
from unisono.apiserver.flow_control.aside import aside
from unisono.apiserver.operations import field_owners, metadata, writes
from unisono.apiserver.operations.write_request import Write
from unisono.apiserver.types import Written


async def apply(write: Write, body: Any) -> Written:
    """Apply a configuration to an object or its status; see ``ObjectService.patch``."""
    kind, stored, namespace, name = write.kind, write.stored, write.namespace, write.name
    writes.check_subresource(stored, write.subresource)
    if not isinstance(body, dict):
        raise failures.bad_request("an applied configuration must be an object")
    config = await aside(codec.accept_configuration, kind, stored, body, namespace, name)
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
    writer = managed_fields.Writer(write.options.field_manager, "Apply", kind.api_version)
    start = {**field_owners.empty(stored), "apiVersion": kind.api_version, "kind": kind.kind}
    schema = field_owners.schema(kind, stored)
    applied = await aside(managed_fields.apply, start, config, schema, [], writer, write.context.now(), door)
    new = await _accept(write, applied)

    def own() -> None:
        new.metadata.managed_fields = managed_fields.write_entries(applied.entries)

    return write.answer(await writes.store_new(write, new, own), created=True)


async def _change(write: Write, config: dict[str, Any]) -> Written:
    context, kind, stored, subresource = write.context, write.kind, write.stored, write.subresource
    await context.conversions.know_present(stored, write.namespace, write.name)
    entry, old = await context.load(stored, write.namespace, write.name)
    writer = managed_fields.Writer(write.options.field_manager, "Apply", kind.api_version, subresource)
    now, force = context.now(), write.options.force

    def merge() -> tuple[list[managed_fields.Entry], managed_fields.Applied]:
        before = field_owners.entries_of(old.metadata.managed_fields)
        live = field_owners.plain(codec.as_version(entry.data, stored, kind))
        schema, door = field_owners.schema(kind, stored), field_owners.ignored(stored, subresource)
        empty = field_owners.empty(stored)
        return before, managed_fields.apply(live, config, schema, before, writer, now, door, empty=empty, force=force)

    before, applied = await aside(merge)
    new = await _accept(write, applied)
    metadata.carry_over(new, old, stored, require_version=False)

    def own() -> None:
        field_owners.set_entries(new, old.metadata.managed_fields, before, applied.entries)

    return write.answer(await writes.replace(write, entry, old, new, own))


async def _accept(write: Write, applied: managed_fields.Applied) -> Any:
    # The configuration has been checked; what is left is what the stored object has.
    lenient = replace(write.options, field_validation="Ignore")
    new, _ = await aside(codec.accept, write.kind, write.stored, applied.object, lenient, write.name)
    metadata.check_place(new, write.stored, write.namespace, write.name)
    return new


def _place(config: dict[str, Any], kind: Kind[Any], namespace: str | None, name: str) -> None:
    """The URL says which object is meant; the configuration may repeat it."""
    meta = config.setdefault("metadata", {})
    if not isinstance(meta, dict):
        raise failures.bad_request("metadata must be an object")
    meta.setdefault("name", name)
    if kind.namespaced and namespace:
        meta.setdefault("namespace", namespace)
