"""What a create, an update or a patch does to the ownership of fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from unisono.apiserver.managed_fields.compare import compare
from unisono.apiserver.managed_fields.managers import Entry, Writer, capped, without
from unisono.apiserver.managed_fields.paths import Path, field
from unisono.apiserver.managed_fields.schemas import Schema

# No manager owns what names an object, nor what the server alone decides.
_META = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_UNOWNED: frozenset[Path] = frozenset(
    {
        (),
        (field("apiVersion"),),
        (field("kind"),),
        (field("metadata"),),
        *((field("metadata"), field(name)) for name in _META),
    }
)
Ignored = Callable[[Path], bool]


def owned(fields: Iterable[Path], ignored: Ignored) -> frozenset[Path]:
    """Those of ``fields`` that a manager may own; ``ignored`` says which ones this door does not write."""
    return frozenset(path for path in fields if path not in _UNOWNED and not ignored(path))


def record(
    old: dict[str, Any],
    new: dict[str, Any],
    schema: Schema,
    entries: Sequence[Entry],
    writer: Writer,
    now: str,
    ignored: Ignored,
) -> list[Entry]:
    """The entries after a write: the writer owns what it changed, and removed fields have no owner.

    Args:
        old: the object before, without ``managedFields``; of a new object what every object of the kind has.
        new: the object that will be stored.
        schema: of the kind.
        entries: as they were.
        writer: who wrote.
        now: RFC 3339.
        ignored: fields that this door cannot write.

    """
    changes = compare(old, new, schema).without(ignored)
    if not changes:
        return list(entries)
    taken = owned(changes.written, ignored)
    mine = next((entry for entry in entries if entry.writer.identity == writer.identity), None)
    others = without((entry for entry in entries if entry is not mine), changes.written | changes.removed)
    held = ((mine.fields - changes.removed) if mine else frozenset()) | taken
    if held:
        moved = mine is None or held != mine.fields or bool(taken)
        others.append(Entry(writer, now if moved or mine is None else mine.time, held))
    return capped(others)
