"""The patch types of the Kubernetes API, as pure functions on decoded JSON."""

from __future__ import annotations

from typing import Any

from unisono.api.documents.json_patch import apply_json_patch
from unisono.api.documents.merge import apply_merge_patch
from unisono.api.documents.strategic import apply_strategic_patch
from unisono.api.kind import Kind
from unisono.api.schema import schema_of
from unisono.apiserver.custom.kinds import is_custom
from unisono.apiserver.failures import bad_request, unsupported_media_type
from unisono.apiserver.types import PatchType

_JSON = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"


def media_types(kind: Kind[Any]) -> tuple[str, ...]:
    """Content types of patches that the kind accepts; strategic merge is for built-in kinds, as on a real server."""
    return (_JSON, _MERGE, _APPLY) if is_custom(kind) else (_JSON, _MERGE, _STRATEGIC, _APPLY)


def check_type(kind: Kind[Any], patch_type: PatchType) -> None:
    """Refuse a type of patch that the kind does not take, whether or not the object is there.

    Raises:
        ApiError: 415.

    """
    if patch_type == "strategic" and is_custom(kind):
        raise unsupported_media_type(media_types(kind))


def apply_patch(kind: Kind[Any], current: dict[str, Any], patch: Any, patch_type: PatchType) -> dict[str, Any]:
    """The patched object; ``current`` and ``patch`` are not changed.

    Raises:
        ApiError: 400 for a malformed patch, 415 for a type that the kind does not accept.
        Invalid: the patch does not fit this object.

    """
    try:
        patched = _patched(kind, current, patch, patch_type)
    except RecursionError:
        raise bad_request("the patch is nested too deeply") from None
    if not isinstance(patched, dict):
        raise bad_request("the patch does not leave an object")
    return patched


def _patched(kind: Kind[Any], current: dict[str, Any], patch: Any, patch_type: PatchType) -> Any:
    if patch_type == "json":
        return apply_json_patch(current, patch)
    if patch_type == "merge" or (patch_type == "strategic" and not is_custom(kind)):
        if not isinstance(patch, dict):
            raise bad_request("a patch of this type must be a JSON object")
        if patch_type == "merge":
            return apply_merge_patch(current, patch)
        return apply_strategic_patch(current, patch, schema_of(kind))
    raise unsupported_media_type(media_types(kind))
