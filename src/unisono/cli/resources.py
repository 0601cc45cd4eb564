"""Objects of the kinds that a server tells of, as the structs of this project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.discovery import Resource


def object_of(resource: Resource, item: dict[str, Any]) -> tuple[Kind[Any] | None, Any]:
    """An object as a struct, with its kind in the version that was asked for.

    Of kinds that are not known here the metadata are read, and the kind is None.
    """
    import msgspec

    from unisono.api.base import Object, ObjectMeta
    from unisono.api.decode import decode
    from unisono.sdk.submission import kind_of

    kind = kind_of({"apiVersion": resource.api_version, "kind": resource.kind})
    if kind is None:
        return None, Object(metadata=msgspec.convert(item.get("metadata") or {}, ObjectMeta))
    return kind, decode(kind, item).obj
