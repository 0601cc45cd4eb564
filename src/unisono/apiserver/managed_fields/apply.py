"""Server-side apply: a configuration is merged into an object, and its writer owns exactly the fields it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from unisono.apiserver.managed_fields.compare import all_fields, compare, fields_of, with_parents
from unisono.apiserver.managed_fields.conflicts import apply_conflict, clashes
from unisono.apiserver.managed_fields.last_applied import allowed_by_last_applied, renewed
from unisono.apiserver.managed_fields.managers import Entry, Writer, without
from unisono.apiserver.managed_fields.merge import merge, remove
from unisono.apiserver.managed_fields.paths import NONE, Paths, field
from unisono.apiserver.managed_fields.record import Ignored, owned, record
from unisono.apiserver.managed_fields.schemas import Schema

# Owner of everything that an object had when it was first applied to and had no recorded owner.
BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Applied:
    """The merged object and who owns what in it."""

    object: dict[str, Any]
    entries: list[Entry]


def apply(
    live: dict[str, Any],
    config: dict[str, Any],
    schema: Schema,
    entries: Sequence[Entry],
    writer: Writer,
    now: str,
    ignored: Ignored,
    *,
    empty: dict[str, Any] | None = None,
    force: bool = False,
) -> Applied:
    """Merge ``config`` into ``live``; what the writer applied before and not now goes if it has no other owner.

    Args:
        live: the object, without ``managedFields``; of a new one what every object of the kind has.
        config: what the writer wants, without nulls and unknown fields.
        schema: of the kind.
        entries: who owns what in ``live``.
        writer: who applies.
        now: RFC 3339.
        ignored: fields that this door cannot write.
        empty: what every object of the kind has; None when ``live`` is a new object.
        force: take the fields of others instead of failing.

    Raises:
        Conflict: others own fields that ``config`` would change; one cause for each.
        ApiError: 400 when list items cannot be told from each other.

    """
    known = existing_only(entries, live, schema)
    if not known and empty is not None:
        before = Writer(BEFORE, "Update", writer.api_version)
        known = record(empty, live, schema, [], before, now, lambda _: False)
    mine = next((entry for entry in known if entry.writer.identity == writer.identity), None)
    others = [entry for entry in known if entry is not mine]
    fields = owned(fields_of(config, schema), ignored)
    merged = merge(live, config, schema)
    if mine is not None:
        merged = remove(merged, _dropped(mine.fields, fields, others, schema), schema)
    changes = compare(live, merged, schema).without(ignored)
    found = clashes(others, writer, changes.written)
    if found and not force:
        allowed = allowed_by_last_applied(live, schema, writer)
        found = [each for each in found if each[1] not in allowed]
        if found:
            raise apply_conflict(found)
    left = without(others, changes.written | changes.removed)
    if fields:
        same = mine is not None and mine.fields == fields and not changes
        left.append(Entry(writer, mine.time if same and mine else now, fields))
    return Applied(renewed(merged, config, writer), left)


def existing_only(entries: Sequence[Entry], live: dict[str, Any], schema: Schema) -> list[Entry]:
    """The entries without fields that the object has lost unseen: an owner of nothing cannot object."""
    present = all_fields(live, schema) if entries else NONE
    return [
        entry if entry.fields <= present else replace(entry, fields=entry.fields & present, wire=None)
        for entry in entries
    ]


def _dropped(last: Paths, fields: Paths, others: Sequence[Entry], schema: Schema) -> Paths:
    """Fields that were applied last time and have no owner any more."""
    if last <= fields:
        return NONE
    held = fields.union(*(entry.fields for entry in others))
    # The object's name stays, whatever manager owns the rest of its metadata.
    return with_parents(last, schema) - with_parents(held, schema) - {(field("metadata"),)}
