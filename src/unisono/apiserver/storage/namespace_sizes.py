"""How many bytes the objects of each namespace take, kept current with every change that is queued."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from unisono.apiserver.storage.entry import Entry, Event


class NamespaceSizes:
    """Stored bytes by namespace, changes on their way to the disk included; cluster-scoped objects count as ``""``."""

    def __init__(self) -> None:
        self._bytes: defaultdict[str, int] = defaultdict(int)

    def of(self, namespace: str) -> int:
        """Bytes of all objects of the namespace, as they are encoded in the store."""
        return self._bytes.get(namespace, 0)

    def follow(self, event: Event) -> None:
        """Take in a change."""
        namespace = event.entry.namespace
        after = 0 if event.type == "DELETED" else len(event.entry.data)
        left = self._bytes[namespace] + after - (len(event.previous.data) if event.previous else 0)
        if left:
            self._bytes[namespace] = left
        else:
            del self._bytes[namespace]

    def count(self, entries: Iterable[Entry]) -> None:
        """Begin with these objects."""
        self._bytes.clear()
        for entry in entries:
            self._bytes[entry.namespace] += len(entry.data)
