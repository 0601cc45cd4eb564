"""What goes after others went: dependents of owners that are gone, and what a deleted namespace holds."""

from __future__ import annotations

from collections.abc import Callable

from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.conditions import without
from unisono.api.core import ConfigMap, ServiceAccount
from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, find
from unisono.apiserver import encoding
from unisono.apiserver.custom.kinds import in_version_of
from unisono.apiserver.encoding import Meta, read_meta
from unisono.apiserver.flow_control import Slices
from unisono.apiserver.housekeeping.objects import StoreController
from unisono.apiserver.operations import deletion, strategy
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.deletion import FOREGROUND, ORPHAN, removable
from unisono.apiserver.operations.strategy import NAMESPACE_FINALIZER
from unisono.apiserver.storage.objects import Event, Key, StoredEntry
from unisono.apiserver.types import DeleteOptions
from unisono.errors import NotFound
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# The garbage collector: dependents follow their owners, in the way that the owner's deletion asks for.
#
# An owner counts as gone when no object of that kind, namespace, name **and uid** exists. A reference whose kind this
# server does not serve, or from a cluster-scoped object to a namespaced one, cannot be checked and keeps its object.
# The index is rebuilt from the store at start, so nothing is lost with the process.


class OwnerIndex:
    """Dependents by owner uid, kept up to date by the store's events."""

    def __init__(self) -> None:
        self._dependents: dict[str, dict[Key, None]] = {}
        self._owners: dict[Key, tuple[str, ...]] = {}

    def set(self, key: Key, references: list[OwnerReference] | None) -> bool:
        """Note the references of an object (None: it has none, or is gone); True when they differ from before."""
        uids = tuple(dict.fromkeys(reference.uid for reference in references or ()))  # one may be given twice
        before = self._owners.get(key, ())
        if uids == before:
            return False
        for uid in before:
            dependents = self._dependents[uid]
            dependents.pop(key, None)
            if not dependents:
                del self._dependents[uid]
        for uid in uids:
            self._dependents.setdefault(uid, {})[key] = None
        if uids:
            self._owners[key] = uids
        else:
            self._owners.pop(key, None)
        return True

    def owners(self, key: Key) -> tuple[str, ...]:
        """Uids that an object names as its owners."""
        return self._owners.get(key, ())

    def dependents(self, uid: str) -> tuple[Key, ...]:
        """Objects that name ``uid`` as an owner, in the order in which they did."""
        return tuple(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        """Whether any object names ``uid`` as an owner."""
        return uid in self._dependents


# Judging one reference takes as long as reading the metadata of an object of this size.
_REFERENCE_BYTES = 1024
# And queueing one dependent as long as one of this size.
_QUEUED_BYTES = 4096


class GarbageCollector(StoreController):
    """Deletes dependents of owners that are gone."""

    name, workers = "garbage collector", 32

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(context, clock=clock)
        self._index = OwnerIndex()
        self._waiting: dict[str, Key] = {}
        # Uids of owners that wait for their dependents, and whose dependents have been queued.
        self._swept: set[str] = set()

    def _look_at_all(self) -> None:
        for resource in self._store.resources():
            for entry in self._store.scan(resource):
                self._note(entry.key, read_meta(entry.data))

    def _on_event(self, event: Event) -> None:
        key, meta = event.entry.key, read_meta(event.entry.data)
        if event.type != "DELETED":
            self._note(key, meta)
            return
        for uid in self._index.owners(key):
            if uid in self._waiting:
                self._keeper.add(self._waiting[uid])
        self._index.set(key, None)
        self._waiting.pop(meta.uid, None)
        self._swept.discard(meta.uid)
        if self._index.has_dependents(meta.uid):
            self._keeper.add(_dependents_of(meta.uid))

    def _note(self, key: Key, meta: Meta) -> None:
        if self._index.set(key, meta.owner_references):
            self._keeper.add(key)
            for uid in self._index.owners(key):
                if uid in self._waiting:
                    self._keeper.add(self._waiting[uid])
        finalizers = meta.finalizers or ()
        if meta.deletion_timestamp and (FOREGROUND in finalizers or ORPHAN in finalizers):
            self._waiting[meta.uid] = key
            self._keeper.add(key)

    async def _handle(self, key: Key) -> None:
        if not key[0]:
            await self._look_at_dependents(key[2])
            return
        entry = self._store.latest(key)
        if entry is None:
            return
        meta = read_meta(entry.data)
        finalizers = meta.finalizers or ()
        if meta.deletion_timestamp and FOREGROUND in finalizers:
            await self._finish_foreground(key, meta.uid)
        elif meta.deletion_timestamp and ORPHAN in finalizers:
            await self._release_dependents(key, meta.uid)
        elif meta.owner_references and not meta.deletion_timestamp:
            await self._judge(entry, meta, meta.owner_references)

    async def _judge(self, entry: StoredEntry, meta: Meta, references: list[OwnerReference]) -> None:
        """Delete an object that has lost all owners; strike out the lost ones of an object that has others."""
        key, owners = entry.key, _Owners(self._context)
        states = {reference.uid: await owners.state(key, reference) for reference in references}
        if self._store.latest(key) is not entry:
            self._keeper.add(key)  # it was changed meanwhile
            return
        lost = {uid for uid, state in states.items() if state != "alive"}
        if not lost:
            return
        if len(lost) < len(states):
            await self._edit(key, lambda obj: _drop_references(obj, lost))
            return
        waiting = "waiting" in states.values()
        policy = "Foreground" if waiting and self._index.has_dependents(meta.uid) else None
        options = DeleteOptions(propagation_policy=policy, uid=meta.uid)
        await self._delete(key, options)

    async def _look_at_dependents(self, uid: str) -> None:
        """Queue all dependents of an owner; there may be tens of thousands."""
        slices = Slices()
        for dependent in self._index.dependents(uid):
            await slices.spend(_QUEUED_BYTES)
            self._keeper.add(dependent)

    async def _finish_foreground(self, key: Key, uid: str) -> None:
        if uid not in self._swept:
            self._swept.add(uid)
            self._keeper.add(_dependents_of(uid))
        slices = Slices()
        for dependent in self._index.dependents(uid):
            entry = self._store.latest(dependent)
            if entry is None:
                continue
            await slices.spend(len(entry.data))
            if key[1] and dependent[1] != key[1]:
                continue  # owners are in their dependents' namespace: others cannot hold this one back
            references = read_meta(entry.data).owner_references or ()
            if any(one.uid == uid and one.block_owner_deletion for one in references):
                return  # its deletion brings the owner back
        await self._edit(key, lambda obj: _drop_finalizer(obj, FOREGROUND))

    async def _release_dependents(self, key: Key, uid: str) -> None:
        for dependent in self._index.dependents(uid):
            await self._edit(dependent, lambda obj: _drop_references(obj, {uid}))
        await self._edit(key, lambda obj: _drop_finalizer(obj, ORPHAN))

    async def _delete(self, key: Key, options: DeleteOptions) -> None:
        kind = self._context.kinds.get(key[0])
        if kind is None:
            return  # its definition has gone, and what is left of it goes another way
        try:
            await deletion.delete(self._context, kind, key[1] or None, key[2], options)
        except NotFound:
            return

    async def _edit(self, key: Key, change: Callable[[Object], None]) -> None:
        """Change the metadata of an object that may be gone by now, and remove it when nothing holds it any longer."""
        kind, entry = self._context.kinds.get(key[0]), self._store.latest(key)
        if kind is None or entry is None:
            return
        obj = encoding.read(in_version_of(kind, entry.data), entry.data)
        change(obj)
        if encoding.render(obj) == entry.data:
            return
        update = self._context.change(kind, obj, entry.revision, delete=removable(obj))
        await self._context.commit(kind, [update])


def _dependents_of(uid: str) -> Key:
    """The key in the queue that stands for all dependents of an owner; no resource has an empty name."""
    return "", "", uid


class _Owners:
    """What has become of the owners of one object: it may name thousands, and one large object many times."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._slices = Slices()
        self._seen: dict[Key, Meta | None] = {}

    async def state(self, key: Key, reference: OwnerReference) -> str:
        """``alive``, ``gone`` or ``waiting`` for its dependents, of an owner that the object at ``key`` names."""
        kind = find(reference.api_version, reference.kind) or self._context.custom.find(
            reference.api_version, reference.kind
        )
        await self._slices.spend(_REFERENCE_BYTES)
        if kind is None or (kind.namespaced and not key[1]):
            return "alive"
        meta = await self._meta(Context.key(kind, key[1], reference.name))
        if meta is None or meta.uid != reference.uid:
            return "gone"
        return "waiting" if meta.deletion_timestamp and FOREGROUND in (meta.finalizers or ()) else "alive"

    async def _meta(self, owner: Key) -> Meta | None:
        if owner not in self._seen:
            entry = self._context.store.latest(owner)
            self._seen[owner] = None if entry is None else read_meta(entry.data)
            await self._slices.spend(0 if entry is None else len(entry.data))
        return self._seen[owner]


def _drop_references(obj: Object, uids: set[str]) -> None:
    kept = [one for one in obj.metadata.owner_references or () if one.uid not in uids]
    obj.metadata.owner_references = kept or None


def _drop_finalizer(obj: Object, finalizer: str) -> None:
    obj.metadata.finalizers = without(obj.metadata.finalizers, finalizer)


# Namespaces: what each has from its beginning (service account, certificate authority), and its end: a namespace that
# ends goes when all of its content, which is deleted first, has gone.


class NamespaceController(StoreController):
    """Ends namespaces that were deleted."""

    name, workers = "namespace controller", 4

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(context, clock=clock)
        self._ending: set[str] = set()

    def _look_at_all(self) -> None:
        for entry in self._store.scan(NAMESPACES.resource):
            self._note(entry)

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
        namespace = encoding.read(NAMESPACES, entry.data)
        if NAMESPACE_FINALIZER not in (namespace.spec.finalizers or ()):
            return
        namespace.spec.finalizers = without(namespace.spec.finalizers, NAMESPACE_FINALIZER)
        change = self._context.change(NAMESPACES, namespace, entry.revision, delete=removable(namespace))
        await self._context.commit(NAMESPACES, [change])


# Every namespace has a service account ``default``.

DEFAULT = "default"


class DefaultAccounts(StoreController):
    """Gives each namespace its service account."""

    name, workers = "default service accounts", 4

    def _look_at_all(self) -> None:
        for entry in self._store.scan(NAMESPACES.resource):
            self._keeper.add(entry.key)

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


class RootCertificates(StoreController):
    """Gives each namespace the certificate, as soon as it is told it."""

    name, workers = "root certificates", 4

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(context, clock=clock)
        self._certificate = ""

    def publish(self, certificate: str) -> None:
        """Give this certificate (PEM) to every namespace from now on."""
        self._certificate = certificate
        for entry in self._store.scan(NAMESPACES.resource):
            self._keeper.add(entry.key)

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
        desired, kind = {_KEY: self._certificate}, CONFIG_MAPS
        entry = self._store.latest(context.key(kind, key[2], NAME))
        if entry is None:
            made = ConfigMap(
                metadata=ObjectMeta(name=NAME, namespace=key[2], annotations=dict(_ANNOTATIONS)), data=desired
            )
            made.api_version, made.kind = kind.api_version, kind.kind
            strategy.begin(made, kind, uid=context.new_uid(), now=context.now(), new_suffix=context.new_suffix)
            await context.put(kind, made, 0)
            return
        _, present = context.current(kind, key[2], NAME)
        if present.data != desired:
            present.data = desired
            await context.put(kind, present, entry.revision)
