"""Every namespace has a ConfigMap ``kube-root-ca.crt``: with it pods know the API server's certificate."""

from __future__ import annotations

from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES
from unisono.apiserver.encoding.partial import read_meta
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.operations import metadata
from unisono.apiserver.operations.context import Context
from unisono.apiserver.storage.entry import Event, Key
from unisono.kube.clock import SYSTEM_CLOCK, Clock

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
            metadata.begin(made, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)
            await context.put(kind, made, 0)
            return
        _, present = context.current(kind, key[2], NAME)
        if present.data != wanted:
            present.data = wanted
            await context.put(kind, present, found.revision)
