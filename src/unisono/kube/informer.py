"""A cache of one kind that tells its handlers about every change.

Objects in the cache are shared: handlers and callers must not change them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.kube.client import Client, EventType
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.pace import Backoff
from unisono.kube.reflector import Reflector, ReflectorStatistics
from unisono.lazy_logs import LazyLogger

T = TypeVar("T", bound=Object)
Handler = Callable[[EventType, T, "T | None"], None]
IndexFunction = Callable[[T], Iterable[str]]

_log = LazyLogger(__name__)


class Informer(Generic[T]):
    """Objects of one kind by key, kept current by list and watch.

    ``synced`` is set after the first list went through every handler. Keys are ``namespace/name``, or
    ``name`` for cluster-scoped kinds. With ``absent_seconds`` a server that does not know the kind counts as one
    without objects, and is asked again after so long.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        *,
        clock: Clock = SYSTEM_CLOCK,
        backoff: Backoff | None = None,
        absent_seconds: float | None = None,
    ) -> None:
        self.kind = kind
        self._objects: dict[str, T] = {}
        self._handlers: list[Handler[T]] = []
        self._index_functions: dict[str, IndexFunction[T]] = {}
        self._indexes: dict[str, dict[str, set[str]]] = {}
        self._reflector: Reflector[T] = Reflector(
            client,
            kind,
            self,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            clock=clock,
            backoff=backoff,
            absent_seconds=absent_seconds,
        )

    @property
    def synced(self) -> asyncio.Event:
        """Set once the first list was handled."""
        return self._reflector.synced

    @property
    def arriving(self) -> int:
        """Objects of the first list, while it is being read one by one."""
        return self._reflector.arriving

    @property
    def resource_version(self) -> str:
        """Up to where the cache knows everything; empty before the first list."""
        return self._reflector.resource_version

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    def statistics(self) -> ReflectorStatistics:
        """How the stream behind the cache fares."""
        return self._reflector.statistics()

    def get(self, key: str) -> T | None:
        """The cached object of that key."""
        return self._objects.get(key)

    def items(self) -> list[T]:
        """All cached objects, in no particular order."""
        return list(self._objects.values())

    def keys(self) -> list[str]:
        """All cached keys."""
        return list(self._objects)

    def __len__(self) -> int:
        """Number of cached objects."""
        return len(self._objects)

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Index by the values that ``function`` answers for an object; adding a name again is an error."""
        if name in self._index_functions:
            raise ValueError(f"index {name!r} exists")
        self._index_functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._index_one(name, key, obj)

    def has_index(self, name: str) -> bool:
        """Whether an index of that name exists: shared informers may be asked for it twice."""
        return name in self._index_functions

    def by_index(self, name: str, value: str) -> list[T]:
        """Objects whose index function answered ``value``, in key order."""
        return [self._objects[key] for key in sorted(self._indexes[name].get(value, ()))]

    def on_change(self, handler: Handler[T]) -> None:
        """Call ``handler(event_type, new, old)`` for every change.

        ADDED has ``old=None``; MODIFIED has both; DELETED has the last known state as ``new`` and the cached
        one as ``old``. Objects that are cached already are replayed as ADDED. A handler that raises is logged
        and skipped.
        """
        self._handlers.append(handler)
        for obj in list(self._objects.values()):
            self._call(handler, "ADDED", obj, None)

    def replace(self, objects: Sequence[T], unread: Sequence[tuple[T, str]] = ()) -> None:
        """Take over a complete list (called by the reflector); what cannot be decoded stays as it was last known."""
        listed = {obj.key: obj for obj in objects}
        there = listed.keys() | {obj.key for obj, _ in unread}
        for key in [key for key in self._objects if key not in there]:
            self._remove(key, self._objects[key])
        for key, obj in listed.items():
            self._store(key, obj)

    def refuse(self, obj: T, why: str) -> None:
        """An object cannot be decoded (called by the reflector): it is still there, as it was last known.

        One of which nothing was known stays unknown; the client has logged it.
        """

    def apply(self, event_type: EventType, obj: T) -> None:
        """Take over one change (called by the reflector)."""
        if event_type == "DELETED":
            self._remove(obj.key, obj)
        else:
            self._store(obj.key, obj)

    def _store(self, key: str, obj: T) -> None:
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and created again between two lists: controllers must see both.
            self._remove(key, old)
            old = None
        if old is not None and not is_newer(obj, old):
            return
        if old is not None:
            self._unindex(key, old)
        self._objects[key] = obj
        for name in self._index_functions:
            self._index_one(name, key, obj)
        self._notify("ADDED" if old is None else "MODIFIED", obj, old)

    def _remove(self, key: str, last: T) -> None:
        old = self._objects.get(key)
        if old is None or old.metadata.uid != last.metadata.uid:
            return
        del self._objects[key]
        self._unindex(key, old)
        self._notify("DELETED", last, old)

    def _notify(self, event_type: EventType, new: T, old: T | None) -> None:
        for handler in self._handlers:
            self._call(handler, event_type, new, old)

    def _call(self, handler: Handler[T], event_type: EventType, new: T, old: T | None) -> None:
        try:
            handler(event_type, new, old)
        except Exception:
            _log.exception("informer.handler_failed", resource=self.kind.resource, key=new.key, change=event_type)

    def _index_one(self, name: str, key: str, obj: T) -> None:
        for value in self._values(name, obj):
            self._indexes[name].setdefault(value, set()).add(key)

    def _unindex(self, key: str, obj: T) -> None:
        for name, index in self._indexes.items():
            for value in self._values(name, obj):
                keys = index.get(value)
                if keys is not None:
                    keys.discard(key)
                    if not keys:
                        del index[value]

    def _values(self, name: str, obj: T) -> Iterable[str]:
        try:
            return list(self._index_functions[name](obj))
        except Exception:
            # One malformed object must not stop the stream for all others.
            _log.exception("informer.index_failed", resource=self.kind.resource, key=obj.key, index=name)
            return ()


def is_newer(new: Object, old: Object) -> bool:
    """Whether ``new`` is a later state of the same object; duplicates and late repeats are not.

    resourceVersions of one kind are comparable numbers on every known server (and by contract since
    Kubernetes 1.35); where they are not numbers, any difference counts.
    """
    a, b = new.metadata.resource_version or "", old.metadata.resource_version or ""
    if a.isdigit() and b.isdigit():
        return int(a) > int(b)
    return a != b
