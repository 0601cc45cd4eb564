"""The JSON Patch that brings a document from one state to another (RFC 6902; pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def json_patch(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Operations in order; lists of equal length are compared entry by entry, others are replaced as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in after.items():
            at = f"{path}/{_escaped(key)}"
            if key in before:
                yield from json_patch(before[key], value, at)
            else:
                yield {"op": "add", "path": at, "value": value}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from json_patch(old, new, f"{path}/{index}")
    elif not _same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def overlaid(base: Any, before: Any, after: Any) -> Any:
    """``base`` with what changed from ``before`` to ``after``; what neither of the two knows stays as it is."""
    if isinstance(base, dict) and isinstance(before, dict) and isinstance(after, dict):
        changed = {
            key: overlaid(base.get(key), before.get(key), value)
            for key, value in after.items()
            if key not in before or not _same(before[key], value)
        }
        return {key: value for key, value in base.items() if key in after or key not in before} | changed
    if _lists(base, before, after):
        return [overlaid(*each) for each in zip(base, before, after, strict=True)]
    return base if _same(before, after) else after


def _lists(*values: Any) -> bool:
    return all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: ``True`` is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other and isinstance(one, bool) == isinstance(other, bool))


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
