"""Every namespace has a service account ``default``."""

from __future__ import annotations

from unisono.api.base import ObjectMeta
from unisono.api.core import ServiceAccount
from unisono.api.kinds import NAMESPACES, SERVICE_ACCOUNTS
from unisono.apiserver.encoding.partial import read_meta
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.operations import metadata
from unisono.apiserver.operations.context import Context
from unisono.apiserver.storage.entry import Event, Key
from unisono.kube.clock import SYSTEM_CLOCK, Clock

DEFAULT = "default"


class DefaultAccounts:
    """Watches the store from ``start`` to ``stop``."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        self._keeper = Housekeeper("default service accounts", self._handle, workers=4, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def start(self) -> None:
        """Look at every namespace once, then at every change."""
        self._store.listen(self._on_event)
        for entry in self._store.scan(NAMESPACES.resource):
            self._keeper.add(entry.key)
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start goes on."""
        await self._keeper.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource == NAMESPACES.resource and event.type == "ADDED":
            self._keeper.add(entry.key)
        elif entry.resource == SERVICE_ACCOUNTS.resource and entry.name == DEFAULT and event.type == "DELETED":
            self._keeper.add((NAMESPACES.resource, "", entry.namespace))

    async def _handle(self, key: Key) -> None:
        context = self._context
        namespace = self._store.latest(key)
        if namespace is None or read_meta(namespace.data).deletion_timestamp:
            return
        if self._store.latest(context.key(SERVICE_ACCOUNTS, key[2], DEFAULT)) is not None:
            return
        kind = SERVICE_ACCOUNTS
        account = ServiceAccount(metadata=ObjectMeta(name=DEFAULT, namespace=key[2]))
        account.api_version, account.kind = kind.api_version, kind.kind
        metadata.begin(account, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)
        await context.put(kind, account, 0)
