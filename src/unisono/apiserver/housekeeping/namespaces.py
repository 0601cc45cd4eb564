"""Namespaces: what each has from its beginning (service account, certificate authority), and its end."""

from __future__ import annotations

from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, ServiceAccount
from unisono.api.finalizers import without
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from unisono.apiserver.encoding import codec
from unisono.apiserver.encoding.codec import read_meta
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.operations import deletion, strategy
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.deletion import removable
from unisono.apiserver.operations.strategy import NAMESPACE_FINALIZER
from unisono.apiserver.storage.objects import Event, Key, StoredEntry
from unisono.apiserver.types import DeleteOptions
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# Ending namespaces: their content is deleted, and when it has gone, so do they.


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

    def _note(self, entry: StoredEntry) -> None:
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
            await deletion.delete_all(self._context, kind, alive, DeleteOptions())
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


# Every namespace has a service account ``default``.

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
        strategy.begin(account, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)
        await context.put(kind, account, 0)


# Every namespace has a ConfigMap ``kube-root-ca.crt``: with it pods know the API server's certificate.

NAME = "kube-root-ca.crt"
_KEY = "ca.crt"
_ANNOTATIONS = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across "
    "distributions of Kubernetes clusters."
}


class RootCertificates:
    """Watches the store from ``start`` to ``stop``; has nothing to do until it is told the certificate."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        self._certificate = ""
        self._keeper = Housekeeper("root certificates", self._handle, workers=4, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def publish(self, certificate: str) -> None:
        """Give this certificate (PEM) to every namespace from now on."""
        self._certificate = certificate
        for entry in self._store.scan(NAMESPACES.resource):
            self._keeper.add(entry.key)

    def start(self) -> None:
        """Look at every change."""
        self._store.listen(self._on_event)
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start goes on."""
        await self._keeper.stop()

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if not self._certificate:
            return
        if entry.resource == NAMESPACES.resource and event.type == "ADDED":
            self._keeper.add(entry.key)
        elif entry.resource == CONFIG_MAPS.resource and entry.name == NAME and event.type != "ADDED":
            self._keeper.add((NAMESPACES.resource, "", entry.namespace))

    async def _handle(self, key: Key) -> None:
        context, namespace = self._context, self._store.latest(key)
        if namespace is None or read_meta(namespace.data).deletion_timestamp:
            return
        wanted, kind = {_KEY: self._certificate}, CONFIG_MAPS
        found = self._store.latest(context.key(kind, key[2], NAME))
        if found is None:
            made = ConfigMap(
                metadata=ObjectMeta(name=NAME, namespace=key[2], annotations=dict(_ANNOTATIONS)), data=wanted
            )
            made.api_version, made.kind = kind.api_version, kind.kind
            strategy.begin(made, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)
            await context.put(kind, made, 0)
            return
        _, present = context.current(kind, key[2], NAME)
        if present.data != wanted:
            present.data = wanted
            await context.put(kind, present, found.revision)
