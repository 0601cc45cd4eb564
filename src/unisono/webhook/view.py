"""The objects that rules look at, as informers know them or as the server has them at this moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.api.times import rfc3339
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.controller import Informers

T = TypeVar("T", bound=Object)

SEEN: tuple[Kind[Any], ...] = (QUEUES, NAMESPACES)
"""What rules look at beside the object itself."""


class Objects:
    """Some kinds, by key; rules must not change them."""

    def __init__(self, objects: Mapping[Kind[Any], Sequence[Any]], clock: Clock) -> None:
        self._objects = {kind: {obj.key: obj for obj in listed} for kind, listed in objects.items()}
        self._clock = clock

    def find(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        """One object, or None."""
        found: T | None = self._objects.get(kind, {}).get(f"{namespace}/{name}" if namespace else name)
        return found

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterable[T]:
        """All objects, of one namespace or of all."""
        return [
            obj
            for obj in self._objects.get(kind, {}).values()
            if namespace is None or obj.metadata.namespace == namespace
        ]

    def now(self) -> str:
        """The time as objects carry it."""
        return rfc3339(self._clock.time())


def cached(informers: Informers) -> Objects:
    """What the informers know; it may be a moment old."""
    return Objects({kind: informers.of(kind).items() for kind in SEEN}, informers.clock)


async def live(client: Client, clock: Clock) -> Objects:
    """What the server has now.

    Raises:
        ApiError: it does not answer.

    """
    return Objects({kind: (await client.list(kind)).items for kind in SEEN}, clock)
