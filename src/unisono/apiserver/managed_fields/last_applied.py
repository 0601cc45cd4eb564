"""From client-side to server-side apply: the annotation in which kubectl keeps what it applied last."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.keys import LAST_APPLIED
from unisono.api.unreadable import UNREADABLE
from unisono.apiserver.managed_fields.compare import compare, fields_of
from unisono.apiserver.managed_fields.managers import Writer
from unisono.apiserver.managed_fields.paths import NONE, Paths
from unisono.apiserver.managed_fields.schemas import Schema
from unisono.errors import ApiError

# Only for kubectl's own name: who applies under another one decides about conflicts itself.
KUBECTL = "kubectl"


def allowed_by_last_applied(live: dict[str, Any], schema: Schema, writer: Writer) -> Paths:
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


def renewed(merged: dict[str, Any], config: dict[str, Any], writer: Writer) -> dict[str, Any]:
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
