"""Writes finalizers: adds one to an object, or takes one away."""

from __future__ import annotations

from typing import Any

from unisono.api.base import Object
from unisono.api.finalizers import has_finalizer, without
from unisono.api.kind import Kind
from unisono.errors import NotFound
from unisono.kube.client import Client


async def add_finalizer(client: Client, kind: Kind[Any], obj: Object, name: str) -> None:
    """Add a finalizer to an object that lacks it; one that is gone is fine.

    Raises:
        Conflict: the object has changed since it was read.

    """
    if not has_finalizer(obj, name):
        await _write(client, kind, obj, [*(obj.metadata.finalizers or ()), name])


async def remove_finalizer(client: Client, kind: Kind[Any], obj: Object, name: str) -> None:
    """Take a finalizer from an object that has it; one that is gone is fine.

    Raises:
        Conflict: the object has changed since it was read, or another has its name.

    """
    if has_finalizer(obj, name):
        await _write(client, kind, obj, without(obj.metadata.finalizers, name))


async def _write(client: Client, kind: Kind[Any], obj: Object, finalizers: list[str] | None) -> None:
    meta = obj.metadata
    guarded = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers}
    try:
        await client.patch(kind, meta.name, {"metadata": guarded}, namespace=meta.namespace)
    except NotFound:
        return
