"""The three-way merge of ``apply``, as kubectl does it with JSON merge patches (pure)."""

from __future__ import annotations

import json
from typing import Any

from unisono.api.documents.merge import apply_merge_patch, merge_diff
from unisono.api.keys import LAST_APPLIED


def last_applied_text(manifest: dict[str, Any]) -> str:
    """The annotation's value for a manifest: its JSON without the annotation itself."""
    copy = dict(manifest)
    metadata = dict(copy.get("metadata") or {})
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    metadata["annotations"] = annotations
    copy["metadata"] = metadata
    return json.dumps(copy, separators=(",", ":"), sort_keys=True) + "\n"


def with_last_applied(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the annotation that the next ``apply`` compares with."""
    metadata = dict(manifest.get("metadata") or {})
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        LAST_APPLIED: last_applied_text(manifest),
    }
    return {**manifest, "metadata": metadata}


def three_way_patch(manifest: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """JSON merge patch (RFC 7386) that brings ``live`` to ``manifest``.

    Fields that the last applied manifest had and this one has no more are removed; fields that others set are kept.
    Empty when there is nothing to change.
    """
    before = _recorded(live)
    wanted = with_last_applied(manifest)
    goal = apply_merge_patch(apply_merge_patch(live, _deletions(before or {}, wanted)), wanted)
    patch = merge_diff(live, goal)
    record = wanted["metadata"]["annotations"][LAST_APPLIED]
    if patch == {"metadata": {"annotations": {LAST_APPLIED: record}}} and before == json.loads(record):
        return {}  # the same content, written with another order of keys
    return patch


def _recorded(live: dict[str, Any]) -> dict[str, Any] | None:
    """The manifest of the last apply; None when there was none or the record is damaged."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        recorded = json.loads(text) if text else None
    except ValueError:
        return None
    return recorded if isinstance(recorded, dict) else None


def _deletions(before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for key, value in before.items():
        if key not in wanted:
            patch[key] = None
        elif isinstance(value, dict) and isinstance(wanted[key], dict) and (inner := _deletions(value, wanted[key])):
            patch[key] = inner
    return patch
