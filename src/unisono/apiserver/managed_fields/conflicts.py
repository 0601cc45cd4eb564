"""The words and causes of a conflict between an applied configuration and the owners of its fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from unisono.apiserver.managed_fields.managers import Entry, Writer
from unisono.apiserver.managed_fields.paths import Path, text
from unisono.errors import Conflict

# A field and the entry of its owner.
Clash = tuple[Entry, Path]


def clashes(entries: Iterable[Entry], writer: Writer, written: set[Path]) -> list[Clash]:
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
    last: Entry | None = None
    for entry, path in found:
        if entry is not last:
            lines.append(f"conflicts with {_owner(entry)}:")
            last = entry
        lines.append(f"- {text(path)}")
    return f"Apply failed with {len(found)} conflicts: " + "\n".join(lines)


def _owner(entry: Entry) -> str:
    writer = entry.writer
    named = json.dumps(writer.name, ensure_ascii=False)
    if writer.subresource:
        named += f' with subresource "{writer.subresource}"'
    return named if writer.operation == "Apply" else f"{named} using {writer.api_version}"
