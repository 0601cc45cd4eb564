"""Writing the status of an object, and seeing one's own last write before the cache shows it."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.documents.merge import merge_diff
from unisono.api.kind import Kind
from unisono.controllers.patching import to_json
from unisono.controllers.texts import whole_number
from unisono.kube.client import Client

T = TypeVar("T", bound=Object)


async def write_status(client: Client, kind: Kind[T], obj: T, status: msgspec.Struct) -> T:
    """Bring the status to the server unless it is the stored one.

    Returns:
        the object as it is stored now.

    Raises:
        Conflict: the object has changed since ``obj`` was read.

    """
    before: Any = getattr(obj, "status", None)
    if status == before:
        return obj
    meta = obj.metadata
    patch = {
        "metadata": {"resourceVersion": meta.resource_version},
        "status": merge_diff(to_json(before), to_json(status)),
    }
    return await client.patch(kind, meta.name, patch, namespace=meta.namespace, subresource="status")


class LastWritten(Generic[T]):
    """Objects as this process wrote them last: newer than the cache for a moment."""

    def __init__(self) -> None:
        self._written: dict[str, T] = {}

    def keep(self, obj: T) -> None:
        """Remember an answer of the server."""
        self._written[obj.key] = obj

    def newest(self, key: str, cached: T | None) -> T | None:
        """The cached object, or the written one where the cache is behind."""
        written = self._written.get(key)
        if cached is None or written is None:
            self._written.pop(key, None)
            return cached
        if written.metadata.uid == cached.metadata.uid and _version(written) > _version(cached):
            return written
        del self._written[key]
        return cached


def _version(obj: Object) -> int:
    return whole_number(obj.metadata.resource_version) or 0
