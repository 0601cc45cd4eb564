"""Ending namespaces: their content is deleted, and when it has gone, so do they."""

from __future__ import annotations

from unisono.api.finalizers import without
from unisono.api.kinds import NAMESPACES
from unisono.apiserver.encoding import codec
from unisono.apiserver.encoding.partial import read_meta
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.operations import deletes
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.deletion import removable
from unisono.apiserver.operations.strategy import NAMESPACE_FINALIZER
from unisono.apiserver.storage.entry import Entry, Event, Key
from unisono.apiserver.types import DeleteOptions
from unisono.kube.clock import SYSTEM_CLOCK, Clock


class NamespaceController:
    """Watches the store from ``start`` to ``stop``."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        self._ending: set[str] = set()
        self._keeper = Housekeeper("namespace controller", self._handle, workers=4, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def start(self) -> None:
        """Look at every namespace once, then at every change."""
        self._store.listen(self._on_event)
        for entry in self._store.scan(NAMESPACES.resource):
            self._note(entry)
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start goes on."""
        await self._keeper.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == NAMESPACES.resource:
            if event.type == "DELETED":
                self._ending.discard(entry.name)
            else:
                self._note(entry)
        elif entry.namespace in self._ending:
            # Content that goes may be the last; content that comes was created just before the namespace ended.
            self._keeper.add((NAMESPACES.resource, "", entry.namespace))

    def _note(self, entry: Entry) -> None:
        if read_meta(entry.data).deletion_timestamp:
            self._ending.add(entry.name)
            self._keeper.add(entry.key)

    async def _handle(self, key: Key) -> None:
        entry = self._store.latest(key)
        if entry is None or not read_meta(entry.data).deletion_timestamp:
            return
        if await self._empty(key[2]):
            await self._finish(key)

    async def _empty(self, namespace: str) -> bool:
        """Ask everything in the namespace to go; True when nothing is left."""
        empty = True
        for kind in list(self._context.kinds.values()):
            if not kind.namespaced:
                continue
            entries = list(self._store.scan_latest(kind.resource, namespace))
            alive = [one for one in entries if not read_meta(one.data).deletion_timestamp]
            await deletes.delete_all(self._context, kind, alive, DeleteOptions())
            empty &= next(iter(self._store.scan_latest(kind.resource, namespace)), None) is None
        return empty

    async def _finish(self, key: Key) -> None:
        entry = self._store.latest(key)
        if entry is None:
            return
        namespace = codec.read(NAMESPACES, entry.data)
        if NAMESPACE_FINALIZER not in (namespace.spec.finalizers or ()):
            return
        namespace.spec.finalizers = without(namespace.spec.finalizers, NAMESPACE_FINALIZER)
        change = self._context.change(NAMESPACES, namespace, entry.revision, delete=removable(namespace))
        await self._context.commit(NAMESPACES, [change])
