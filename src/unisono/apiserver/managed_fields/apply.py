"""Server-side apply: a configuration is merged into an object, and its writer owns exactly the fields in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.api.keys import LAST_APPLIED
from unisono.apiserver.managed_fields import paths
from unisono.apiserver.managed_fields.managers import FieldManager, Ignored, ManagerEntry, owned, record, without
from unisono.apiserver.managed_fields.paths import (
    MEMBER,
    NONE,
    Path,
    Paths,
    Schema,
    Tree,
    all_fields,
    compare,
    field_step,
    fields_of,
    text,
    to_tree,
    with_parents,
)
from unisono.errors import ApiError, Conflict

# Merging an applied configuration into an object, and taking fields out of it.


def merge(live: Any, config: Any, schema: Schema) -> Any:
    """``live`` with what ``config`` says; shares parts with both, changes neither.

    ``fields_of`` has accepted the configuration: its list items have keys, and no two the same.
    """
    if type(live) is not type(config) or paths.atomic(config, schema):
        return config
    if isinstance(config, dict):
        result = dict(live)
        for name, value in config.items():
            below = paths.child(schema, name)
            result[name] = merge(live[name], value, below) if name in live else value
        return result
    return _merge_lists(live, config, schema)


def _merge_lists(live: list[Any], config: list[Any], schema: Schema) -> list[Any]:
    """Items of the configuration in its order; others stay before the item that followed them."""
    wanted = {paths.element(each, schema): each for each in config}
    below = paths.items(schema)
    before = [(paths.element(each, schema), each) for each in live]
    known = paths.index(live, schema)
    result, position = [], 0
    for element, value in wanted.items():
        values = known.get(element, [])
        while position < len(before):
            if before[position][0] not in wanted:
                result.append(before[position][1])
            elif not values or before[position][0] == element:
                # The turn of a shared item: items that only the configuration has come before it.
                break
            position += 1
        # An item that the object holds several times is replaced by the one of the configuration.
        result.append(merge(values[0], value, below) if len(values) == 1 else value)
    result.extend(each for element, each in before[position:] if element not in wanted)
    return result


def remove(value: Any, members: Paths, schema: Schema) -> Any:
    """``value`` without the fields of ``members``, and without what is below them."""
    return _remove(value, to_tree(members), schema) if members else value


def _remove(value: Any, tree: Tree, schema: Schema) -> Any:
    if not isinstance(value, dict | list) or paths.atomic(value, schema):
        return value
    if isinstance(value, dict):
        kept = {}
        for name, each in value.items():
            node = tree.get(f"f:{name}")
            if node is None:
                kept[name] = each
            elif not _member(node):
                kept[name] = _remove(each, node, paths.child(schema, name))
        return kept
    left = []
    for each in value:
        node = tree.get(paths.element(each, schema))
        if node is None:
            left.append(each)
        elif not _member(node):
            left.append(_remove(each, node, paths.items(schema)))
    return left


def _member(node: Tree) -> bool:
    return not node or MEMBER in node


# The words and causes of a conflict between an applied configuration and the owners of its fields.

# A field and the entry of its owner.
Clash = tuple[ManagerEntry, Path]


def clashes(entries: Iterable[ManagerEntry], writer: FieldManager, written: set[Path]) -> list[Clash]:
    """Fields in ``written`` that others than ``writer`` own."""
    return [
        (entry, path)
        for entry in sorted(entries, key=lambda each: each.writer.identity)
        if entry.writer.identity != writer.identity
        for path in sorted(entry.fields & written)
    ]


def apply_conflict(found: Sequence[Clash]) -> Conflict:
    """409 that names each owner and field."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_owner(entry)}", "field": text(path)}
        for entry, path in found
    ]
    return Conflict(_message(found), details={"causes": causes})


def _message(found: Sequence[Clash]) -> str:
    if len(found) == 1:
        entry, path = found[0]
        return f"Apply failed with 1 conflict: conflict with {_owner(entry)}: {text(path)}"
    lines: list[str] = []
    last: ManagerEntry | None = None
    for entry, path in found:
        if entry is not last:
            lines.append(f"conflicts with {_owner(entry)}:")
            last = entry
        lines.append(f"- {text(path)}")
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)


def _owner(entry: ManagerEntry) -> str:
    writer = entry.writer
    named = json.dumps(writer.name, ensure_ascii=False)
    if writer.subresource:
        named += f' with subresource "{writer.subresource}"'
    return named if writer.operation == "Apply" else f"{named} using {writer.api_version}"


# From client-side to server-side apply: the annotation in which kubectl keeps what it applied last.

# Only for kubectl's own name: who applies under another one decides about conflicts itself.
KUBECTL = "kubectl"


def allowed_by_last_applied(live: dict[str, Any], schema: Schema, writer: FieldManager) -> Paths:
    """Fields that client-side apply wrote and that are still as it wrote them: kubectl may take them over."""
    text = _annotations(live).get(LAST_APPLIED)
    if writer.name != KUBECTL or not isinstance(text, str):
        return NONE
    try:
        last = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != writer.api_version:
            return NONE
        changes = compare(last, live, schema)
        return fields_of(last, schema) - changes.written - changes.removed
    except (*UNREADABLE, ApiError):
        return NONE


def renewed(merged: dict[str, Any], config: dict[str, Any], writer: FieldManager) -> dict[str, Any]:
    """The object with the annotation brought up to date, if it has one and kubectl applies."""
    if writer.name != KUBECTL or not _annotations(merged).get(LAST_APPLIED):
        return merged
    metadata = dict(config.get("metadata") or {})
    annotations = {key: value for key, value in _annotations(config).items() if key != LAST_APPLIED}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    last = msgspec.json.encode({**config, "metadata": metadata}, order="deterministic").decode() + "\n"
    present = {**_annotations(merged), LAST_APPLIED: last}
    return {**merged, "metadata": {**merged["metadata"], "annotations": present}}


def _annotations(value: dict[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


# Server-side apply: a configuration is merged into an object, and its writer owns exactly the fields it names.

# Owner of everything that an object had when it was first applied to and had no recorded owner.
BEFORE = "before-first-apply"


@dataclass(frozen=True, slots=True)
class Applied:
    """The merged object and who owns what in it."""

    object: dict[str, Any]
    entries: list[ManagerEntry]


def apply(
    live: dict[str, Any],
    config: dict[str, Any],
    schema: Schema,
    entries: Sequence[ManagerEntry],
    writer: FieldManager,
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
        before = FieldManager(BEFORE, "Update", writer.api_version)
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
        left.append(ManagerEntry(writer, mine.time if same and mine else now, fields))
    return Applied(renewed(merged, config, writer), left)


def existing_only(entries: Sequence[ManagerEntry], live: dict[str, Any], schema: Schema) -> list[ManagerEntry]:
    """The entries without fields that the object has lost unseen: an owner of nothing cannot object."""
    present = all_fields(live, schema) if entries else NONE
    return [
        entry if entry.fields <= present else replace(entry, fields=entry.fields & present, wire=None)
        for entry in entries
    ]


def _dropped(last: Paths, fields: Paths, others: Sequence[ManagerEntry], schema: Schema) -> Paths:
    """Fields that were applied last time and have no owner any more."""
    if last <= fields:
        return NONE
    held = fields.union(*(entry.fields for entry in others))
    # The object's name stays, whatever manager owns the rest of its metadata.
    return with_parents(last, schema) - with_parents(held, schema) - {(field_step("metadata"),)}
