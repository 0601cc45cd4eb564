"""The garbage collector: dependents follow their owners, in the way that the owner's deletion asks for.

An owner counts as gone when no object of that kind, namespace, name **and uid** exists. A reference whose kind this
server does not serve, or from a cluster-scoped object to a namespaced one, cannot be checked and keeps its object.
The index is rebuilt from the store at start, so nothing is lost with the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from unisono.api.base import Object, OwnerReference
from unisono.api.kinds import find
from unisono.apiserver import codec, deletes
from unisono.apiserver.aside import Slices
from unisono.apiserver.context import Context
from unisono.apiserver.custom.kinds import in_version_of
from unisono.apiserver.deletion import FOREGROUND, ORPHAN, removable
from unisono.apiserver.housekeeping.housekeeper import Housekeeper
from unisono.apiserver.housekeeping.owners import OwnerIndex
from unisono.apiserver.partial import Meta, read_meta
from unisono.apiserver.storage.entry import Entry, Event, Key
from unisono.apiserver.types import DeleteOptions
from unisono.errors import NotFound
from unisono.kube.clock import SYSTEM_CLOCK, Clock

# Judging one reference takes as long as reading the metadata of an object of this size.
_REFERENCE_BYTES = 1024


class GarbageCollector:
    """Watches the store from ``start`` to ``stop``."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        self._index = OwnerIndex()
        self._waiting: dict[str, Key] = {}
        self._keeper = Housekeeper("garbage collector", self._handle, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def start(self) -> None:
        """Look at every object once, then at every change."""
        self._store.listen(self._on_event)
        for resource in self._store.resources():
            for entry in self._store.scan(resource):
                self._note(entry.key, read_meta(entry.data))
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start finds what is left."""
        await self._keeper.stop()

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
        self._add_all(self._index.dependents(meta.uid))

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

    def _add_all(self, keys: Iterable[Key]) -> None:
        for key in sorted(keys):
            self._keeper.add(key)

    async def _handle(self, key: Key) -> None:
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

    async def _judge(self, entry: Entry, meta: Meta, references: list[OwnerReference]) -> None:
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
        policy = "Foreground" if waiting and self._index.dependents(meta.uid) else None
        options = DeleteOptions(propagation_policy=policy, uid=meta.uid)
        await self._delete(key, options)

    async def _finish_foreground(self, key: Key, uid: str) -> None:
        blocked, slices = False, Slices()
        for dependent in sorted(self._index.dependents(uid)):
            entry = self._store.latest(dependent)
            if entry is None:
                continue
            await slices.spend(len(entry.data))
            self._keeper.add(dependent)
            if key[1] and dependent[1] != key[1]:
                continue  # owners are in their dependents' namespace: others cannot hold this one back
            references = read_meta(entry.data).owner_references or ()
            blocked |= any(one.uid == uid and one.block_owner_deletion for one in references)
        if not blocked:
            await self._edit(key, lambda obj: _drop_finalizer(obj, FOREGROUND))

    async def _release_dependents(self, key: Key, uid: str) -> None:
        for dependent in sorted(self._index.dependents(uid)):
            await self._edit(dependent, lambda obj: _drop_references(obj, {uid}))
        await self._edit(key, lambda obj: _drop_finalizer(obj, ORPHAN))

    async def _delete(self, key: Key, options: DeleteOptions) -> None:
        kind = self._context.kinds.get(key[0])
        if kind is None:
            return  # its definition has gone, and what is left of it goes another way
        try:
            await deletes.delete(self._context, kind, key[1] or None, key[2], options)
        except NotFound:
            return

    async def _edit(self, key: Key, change: Callable[[Object], None]) -> None:
        """Change the metadata of an object that may be gone by now, and remove it when nothing holds it any longer."""
        kind, entry = self._context.kinds.get(key[0]), self._store.latest(key)
        if kind is None or entry is None:
            return
        obj = codec.read(in_version_of(kind, entry.data), entry.data)
        change(obj)
        if codec.render(obj) == entry.data:
            return
        update = self._context.change(kind, obj, entry.revision, delete=removable(obj))
        await self._context.commit(kind, [update])


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
    kept = [one for one in obj.metadata.finalizers or () if one != finalizer]
    obj.metadata.finalizers = kept or None
