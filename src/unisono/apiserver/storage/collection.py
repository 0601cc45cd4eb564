"""The committed objects of one resource, with their history and the signal that wakes watches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from unisono.apiserver.storage.entry import Entry, Key
from unisono.apiserver.storage.history import History


class Collection:
    """Entries by key; sorted views are kept until a change."""

    def __init__(self, history: History, loop: asyncio.AbstractEventLoop) -> None:
        self.history = history
        self._loop = loop
        self._entries: dict[Key, Entry] = {}
        self._views: dict[str | None, tuple[Entry, ...]] = {}
        self._changed: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Entry | None:
        """The entry under ``key``."""
        return self._entries.get(key)

    def put(self, entry: Entry) -> None:
        """Add or replace."""
        self._entries[entry.key] = entry
        self._forget(entry.namespace)

    def remove(self, key: Key) -> None:
        """Remove, if there."""
        self._entries.pop(key, None)
        self._forget(key[1])

    def sorted(self, namespace: str | None) -> Sequence[Entry]:
        """Entries of one namespace, or of all, by namespace and name; never changed afterwards."""
        view = self._views.get(namespace)
        if view is None:
            entries = (e for e in self._entries.values() if namespace is None or e.namespace == namespace)
            view = tuple(sorted(entries, key=lambda entry: entry.key))
            if view:  # an empty view is cheap, and anybody may ask for any namespace name
                self._views[namespace] = view
        return view

    def changed(self) -> asyncio.Future[None]:
        """Resolves at the next change; shared, so do not cancel it."""
        if self._changed is None:
            self._changed = self._loop.create_future()
        return self._changed

    def wake(self) -> None:
        """Wake all who wait for a change."""
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    def _forget(self, namespace: str) -> None:
        self._views.pop(namespace, None)
        self._views.pop(None, None)
