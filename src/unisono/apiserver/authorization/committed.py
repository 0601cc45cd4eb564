"""Objects as readers see them: rights must not rest on a change that the disk may still refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.apiserver.encoding import codec
from unisono.apiserver.storage.store import Store

T = TypeVar("T", bound=Object)


class Committed:
    """A ``View`` of committed objects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        """One object, or None."""
        entry = self._store.get((kind.resource, (namespace or "") if kind.namespaced else "", name))
        return codec.read(kind, entry.data) if entry else None

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterator[T]:
        """All objects, of one namespace or of all."""
        return (codec.read(kind, entry.data) for entry in self._store.scan(kind.resource, namespace))
