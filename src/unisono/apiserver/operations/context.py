"""What every operation needs: the store, the kinds, the clock, sources of uids, and typed reads."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import ALL_KINDS
from unisono.api.times import rfc3339
from unisono.apiserver import failures
from unisono.apiserver.admission import Admission
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.encoding import codec
from unisono.apiserver.encoding.views import view_of
from unisono.apiserver.flow_control.aside import aside, weigh
from unisono.apiserver.operations.custom_registry import Registry
from unisono.apiserver.operations.metadata import SUFFIX_ALPHABET, SUFFIX_LENGTH
from unisono.apiserver.operations.sieve import Sieve
from unisono.apiserver.quota.ledger import QuotaLedger
from unisono.apiserver.storage.entry import Entry, Key
from unisono.apiserver.storage.store import Change, StaleWriteError, Store
from unisono.apiserver.webhooks import Webhooks
from unisono.apiserver.webhooks.conversions import Conversions
from unisono.errors import NotFound

T = TypeVar("T", bound=Object)


_POOL_BYTES = 4096
_LOAD_ATTEMPTS = 5
_pool = bytearray()
_pool_lock = threading.Lock()


def _random(size: int) -> bytes:
    """Bytes of the system's source, fetched in stock: each call gives the interpreter's lock away, to the writer."""
    with _pool_lock:
        if len(_pool) < size:
            _pool.extend(os.urandom(_POOL_BYTES))
        taken = bytes(_pool[:size])
        del _pool[:size]
    return taken


# A child process must not hand out what its parent has in stock.
os.register_at_fork(after_in_child=_pool.clear)


def random_suffix() -> str:
    """Characters that ``generateName`` appends."""
    number = int.from_bytes(_random(8))
    letters = []
    for _ in range(SUFFIX_LENGTH):
        number, letter = divmod(number, len(SUFFIX_ALPHABET))
        letters.append(SUFFIX_ALPHABET[letter])
    return "".join(letters)


def random_uid() -> str:
    """A version 4 UUID."""
    return str(uuid.UUID(bytes=_random(16), version=4))


@dataclass(slots=True)
class Context:
    """Shared by all operations of one service.

    Attributes:
        clock: wall clock, seconds since 1970.
        new_uid: gives uids; new_suffix: gives the random part of generated names.
        kinds: served kinds by ``Kind.resource``, under their stored version.
        quotas: keeps what quotas say is used.
        sieve: selects among many objects.
        custom: definitions of the user-defined ones.
        hooks: webhooks that users have set up.
        conversions: those that convert users' own kinds.

    """

    store: Store
    admission: Admission
    clock: Callable[[], float] = time.time
    new_uid: Callable[[], str] = random_uid
    new_suffix: Callable[[], str] = random_suffix
    kinds: dict[str, Kind[Any]] = field(default_factory=lambda: {kind.resource: kind for kind in ALL_KINDS})
    sieve: Sieve = field(default_factory=Sieve)
    custom: Registry = field(init=False)
    quotas: QuotaLedger = field(init=False)
    hooks: Webhooks = field(init=False)
    conversions: Conversions = field(init=False)

    def __post_init__(self) -> None:
        self.custom = Registry(self.store, self.kinds)
        self.quotas = QuotaLedger(self.store, self.kinds)
        self.hooks = Webhooks(self)
        self.conversions = Conversions(self, lambda: self.hooks.caller)

    def now(self) -> str:
        """The time as objects carry it."""
        return rfc3339(self.clock())

    def stored_kind(self, kind: Kind[T]) -> Kind[T]:
        """The kind under its stored version; a user-defined one as its definition is now, in the version asked for.

        Raises:
            NotFound: the server does not serve the kind.

        """
        view = view_of(kind)
        found: Kind[Any] | None = self.kinds.get((view.stored if view else kind).resource)
        if isinstance(found, CustomKind):
            current = self.custom.current(kind)
            if current is not None and current.definition.webhook is not None:
                # This request's own, for what the webhook makes of the objects that it reads.
                current = replace(current, converted={})
            found = cast("Kind[Any] | None", current)
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found

    @staticmethod
    def key(kind: Kind[Any], namespace: str | None, name: str) -> Key:
        """Where an object is stored."""
        return kind.resource, (namespace or "") if kind.namespaced else "", name

    def current(self, kind: Kind[T], namespace: str | None, name: str) -> tuple[Entry, T]:
        """The object that a write must start from.

        Raises:
            NotFound: it does not exist.

        """
        entry = self.store.latest(self.key(kind, namespace, name))
        if entry is None:
            raise failures.not_found(kind, name)
        return entry, codec.read(kind, entry.data)

    async def load(self, kind: Kind[T], namespace: str | None, name: str) -> tuple[Entry, T]:
        """As ``current``, but a large object is decoded beside the event loop.

        Raises:
            NotFound: it does not exist.

        """
        # What a webhook has converted is known for one stored object only, so nothing may be written meanwhile.
        waits = not isinstance(kind, CustomKind) or kind.converted is None
        for _ in range(_LOAD_ATTEMPTS if waits else 0):
            entry = self.store.latest(self.key(kind, namespace, name))
            if entry is None:
                raise failures.not_found(kind, name)
            weigh(len(entry.data))
            obj = await aside(codec.read, kind, entry.data)
            if self.store.latest(entry.key) is entry:
                return entry, obj
        return self.current(kind, namespace, name)

    def find(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        """An object for admission to look at, or None."""
        entry = self.store.latest(self.key(kind, namespace, name))
        return codec.read(kind, entry.data) if entry else None

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterator[T]:
        """Objects for admission to look at."""
        return (codec.read(kind, entry.data) for entry in self.store.scan_latest(kind.resource, namespace))

    def put(self, kind: Kind[Any], obj: Object, expected: int) -> Awaitable[list[Entry]]:
        """Queue an object that was prepared from revision ``expected`` (0: new); answered when it is on disk.

        Raises:
            Conflict: the object has another revision by now.

        """
        return self.commit(kind, [self.change(kind, obj, expected)])

    def change(self, kind: Kind[Any], obj: Object, expected: int, *, delete: bool = False) -> Change:
        """A change of one object."""
        key = self.key(kind, obj.metadata.namespace, obj.metadata.name)
        return Change(key, expected, lambda revision: codec.write(obj, revision), delete, obj)

    def commit(self, kind: Kind[Any], changes: Iterable[Change]) -> Awaitable[list[Entry]]:
        """Queue changes that belong together.

        Raises:
            Conflict: an object has another revision by now.

        """
        queued = list(changes)
        # Accounts of quotas change with the objects that they count, or not at all.
        queued += self.quotas.follow(queued)
        try:
            return self.store.write(queued)
        except StaleWriteError:
            raise failures.conflict(kind, queued[0].key[2]) from None
