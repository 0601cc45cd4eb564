"""Waiting for what becomes of an object, by a watch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.errors import Gone
from unisono.kube.client import Client

T = TypeVar("T", bound=Object)


async def seen(
    client: Client, kind: Kind[T], name: str, namespace: str | None, holds: Callable[[T], Any] = lambda _: True
) -> T:
    """The object as soon as something holds of it; who waits sets the limit."""
    named = f"metadata.name={name}"
    while True:
        found = await client.list(kind, namespace, field_selector=named)
        for obj in found.items:
            if holds(obj):
                return obj
        with suppress(Gone):
            async for event in client.watch(
                kind, namespace, resource_version=found.resource_version, field_selector=named
            ):
                if event.type in ("ADDED", "MODIFIED") and holds(event.object):
                    return event.object
