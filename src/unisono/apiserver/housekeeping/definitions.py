"""Ending definitions take their objects along; names that become free go to definitions that wait for them."""

from __future__ import annotations

from unisono.api.core import CustomResourceDefinition
from unisono.api.finalizers import has_finalizer, without
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from unisono.apiserver.admission.cluster import CLEANUP
from unisono.apiserver.custom.definitions import (
    NAMED_DEFINITIONS,
    NAMES_ACCEPTED,
    TERMINATING,
    accept_names,
    established,
    has_condition,
    set_condition,
)
from unisono.apiserver.encoding import codec
from unisono.apiserver.encoding.codec import read_meta
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.operations import deletion
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.deletion import removable
from unisono.apiserver.storage.objects import Event, Key, StoredEntry
from unisono.apiserver.types import DeleteOptions
from unisono.kube.clock import SYSTEM_CLOCK, Clock

_RESOURCE = CUSTOM_RESOURCE_DEFINITIONS.resource


class DefinitionController:
    """Watches the store from ``start`` to ``stop``."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        self._ending: set[str] = set()
        self._waiting: set[str] = set()
        # One at a time: what one definition is given, the next one cannot have.
        self._keeper = Housekeeper("definition controller", self._handle, workers=1, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def start(self) -> None:
        """Look at every definition once, then at every change."""
        self._store.listen(self._on_event)
        for entry in self._store.scan(_RESOURCE):
            self._note(entry)
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start goes on."""
        await self._keeper.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == _RESOURCE:
            if event.type == "DELETED":
                self._ending.discard(entry.name)
                self._waiting.discard(entry.name)
                self._reconsider()
            else:
                self._note(entry)
        elif entry.resource in self._ending and event.type == "DELETED":
            self._keeper.add((_RESOURCE, "", entry.resource))

    def _note(self, entry: StoredEntry) -> None:
        if read_meta(entry.data).deletion_timestamp:
            self._ending.add(entry.name)
            self._keeper.add(entry.key)
            return
        if has_condition(codec.read(NAMED_DEFINITIONS, entry.data), NAMES_ACCEPTED):
            self._waiting.discard(entry.name)
        else:
            self._waiting.add(entry.name)
        self._reconsider()

    def _reconsider(self) -> None:
        """Names may have become free: look at the definitions that wait for some."""
        for name in sorted(self._waiting):
            self._keeper.add((_RESOURCE, "", name))

    async def _handle(self, key: Key) -> None:
        entry = self._store.latest(key)
        if entry is None:
            return
        crd = codec.read(CUSTOM_RESOURCE_DEFINITIONS, entry.data)
        if crd.metadata.deletion_timestamp is None:
            accept_names(crd, self._context.all(NAMED_DEFINITIONS), self._context.now())
            await self._write(entry, crd)
        elif has_finalizer(crd, CLEANUP):
            await self._end(entry, crd)

    async def _end(self, entry: StoredEntry, crd: CustomResourceDefinition) -> None:
        now = self._context.now()
        if not established(crd):
            set_condition(crd, TERMINATING, "False", "NeverEstablished", "resource was never established", now)
        elif not await self._empty(crd):
            message = "CustomResource deletion is in progress"
            set_condition(crd, TERMINATING, "True", "InstanceDeletionInProgress", message, now)
            await self._write(entry, crd)
            return
        else:
            set_condition(crd, TERMINATING, "False", "InstanceDeletionCompleted", "removed all instances", now)
        crd.metadata.finalizers = without(crd.metadata.finalizers, CLEANUP)
        await self._write(entry, crd)

    async def _empty(self, crd: CustomResourceDefinition) -> bool:
        """Ask every object to go; True when none is left. Those that finalizers hold bring the definition back."""
        kind = self._context.kinds.get(crd.metadata.name)
        if kind is None:
            return True
        entries = list(self._store.scan_latest(kind.resource))
        alive = [one for one in entries if not read_meta(one.data).deletion_timestamp]
        await deletion.delete_all(self._context, kind, alive, DeleteOptions())
        return next(iter(self._store.scan_latest(kind.resource)), None) is None

    async def _write(self, entry: StoredEntry, crd: CustomResourceDefinition) -> None:
        kind = CUSTOM_RESOURCE_DEFINITIONS
        if codec.render(crd) == entry.data:
            return
        change = self._context.change(kind, crd, entry.revision, delete=removable(crd))
        await self._context.commit(kind, [change])
