"""What every operation needs: the store, the kinds that are served, the clock, sources of uids, and typed reads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import structlog

from unisono.api.base import Object
from unisono.api.core.crd import CustomResourceDefinition
from unisono.api.kind import Kind
from unisono.api.kinds import ALL_KINDS, CUSTOM_RESOURCE_DEFINITIONS
from unisono.api.times import rfc3339
from unisono.apiserver import encoding, failures
from unisono.apiserver.admission import Admission, Request
from unisono.apiserver.admission.quotas import QuotaLedger
from unisono.apiserver.admission.request import Operation
from unisono.apiserver.custom.definitions import established
from unisono.apiserver.custom.kinds import CustomKind, Definition
from unisono.apiserver.encoding import view_of
from unisono.apiserver.flow_control import Places, aside, weigh
from unisono.apiserver.operations.strategy import SUFFIX_ALPHABET, SUFFIX_LENGTH
from unisono.apiserver.storage.objects import Event, Key, StoredEntry
from unisono.apiserver.storage.store import Change, StaleWriteError, Store
from unisono.apiserver.types import WriteOptions, Written
from unisono.apiserver.webhooks import Webhooks
from unisono.apiserver.webhooks.calling import Conversions
from unisono.errors import NotFound

# Selecting among many objects by a selector that users write, in slices between which others are answered.

SLICE_SECONDS = 0.005


class Sieve:
    """Selections of one server; those that take longer than a slice go on one after the other, and tenants in turn.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        # One of each tenant at a time, and of all of those one slice.
        self._selections, self._slices = Places(sys.maxsize, 1), Places(1, 1)

    async def select(self, entries: Sequence[StoredEntry], matches: Callable[[StoredEntry], bool]) -> list[StoredEntry]:
        """Those of ``entries`` that match, in their order."""
        selected: list[StoredEntry] = []
        rest = iter(entries)
        if self._slice(rest, matches, selected):
            return selected
        async with self._selections.one():
            done = False
            while not done:
                async with self._slices.one():
                    await asyncio.sleep(0)
                    done = self._slice(rest, matches, selected)
        return selected

    def _slice(
        self, rest: Iterator[StoredEntry], matches: Callable[[StoredEntry], bool], found: list[StoredEntry]
    ) -> bool:
        """Look at some of the rest; whether that was all of it."""
        end = self._clock() + SLICE_SECONDS
        for entry in rest:
            if matches(entry):
                found.append(entry)
            if self._clock() >= end:
                return False
        return True


# All user-defined kinds that are served, kept up to date by the store's events.

_log = structlog.get_logger(__name__)


class Registry:
    """Definitions by name.

    Args:
        store: holds the definitions.
        kinds: served kinds by ``Kind.resource``; user-defined ones are added here and taken away.
    """

    def __init__(self, store: Store, kinds: dict[str, Kind[Any]]) -> None:
        self._store, self._kinds = store, kinds
        self._built_in = frozenset(kinds)
        self._definitions: dict[str, Definition] = {}
        self._followers: list[Callable[[], None]] = []
        for entry in store.scan(CUSTOM_RESOURCE_DEFINITIONS.resource):
            self._adopt(entry)
        store.listen(self._on_event)

    def follow(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` now and after every change of what is served."""
        self._followers.append(follower)
        follower()

    def definitions(self) -> list[Definition]:
        """What is served, by name."""
        return [self._definitions[name] for name in sorted(self._definitions)]

    def served(self) -> Iterator[CustomKind]:
        """Every kind under every version that is served."""
        for definition in self.definitions():
            yield from definition.served()

    def find(self, api_version: str, kind: str) -> CustomKind | None:
        """The kind that ``apiVersion`` and ``kind`` of an object name."""
        group, _, version = api_version.rpartition("/")
        for definition in self._definitions.values():
            custom_kind = definition.at(version)
            if custom_kind is not None and (custom_kind.group, custom_kind.kind) == (group, kind):
                return custom_kind
        return None

    def current(self, kind: Kind[Any]) -> CustomKind | None:
        """The kind as its definition is now; None when that version is neither served nor stored."""
        definition = self._definitions.get(kind.resource)
        if definition is None:
            return None
        # Housekeeping reaches objects through the storage version, which need not be served.
        stored = definition.storage if kind.version == definition.storage.version else None
        return definition.at(kind.version) or stored

    def is_built_in(self, name: str) -> bool:
        """Whether a definition describes a kind that the server has anyway."""
        return name in self._built_in

    def _on_event(self, event: Event) -> None:
        entry = event.entry
        if entry.resource != CUSTOM_RESOURCE_DEFINITIONS.resource or self.is_built_in(entry.name):
            return
        changed = self._drop(entry.name) if event.type == "DELETED" else self._adopt(entry)
        if changed:
            # Watches of the kind end, so that their clients come back to what it is now.
            self._store.wake(entry.name)
            for follower in self._followers:
                follower()

    def _adopt(self, entry: StoredEntry) -> bool:
        if self.is_built_in(entry.name):
            return False
        crd: CustomResourceDefinition = encoding.read(CUSTOM_RESOURCE_DEFINITIONS, entry.data)
        if not established(crd):
            return self._drop(entry.name)
        before = self._definitions.get(entry.name)
        if before is not None and _equal(before, crd):
            return False
        try:
            definition = Definition(crd)
        except Exception:
            # A definition from another version of this program must not keep the server from starting.
            _log.exception("definition cannot be served", definition=entry.name)
            return self._drop(entry.name)
        self._definitions[entry.name] = definition
        self._kinds[entry.name] = definition.storage
        return True

    def _drop(self, name: str) -> bool:
        self._kinds.pop(name, None)
        return self._definitions.pop(name, None) is not None


def _equal(before: Definition, crd: CustomResourceDefinition) -> bool:
    terminating = crd.metadata.deletion_timestamp is not None
    return before.uid == crd.metadata.uid and before.spec == crd.spec and before.terminating == terminating


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
        served_kind: Kind[Any] | None = self.kinds.get((view.stored if view else kind).resource)
        if isinstance(served_kind, CustomKind):
            current = self.custom.current(kind)
            if current is not None and current.definition.webhook is not None:
                # This request's own, for what the webhook makes of the objects that it reads.
                current = replace(current, converted={})
            served_kind = cast("Kind[Any] | None", current)
        if served_kind is None:
            raise NotFound("the server could not find the requested resource")
        return served_kind

    @staticmethod
    def key(kind: Kind[Any], namespace: str | None, name: str) -> Key:
        """Where an object is stored."""
        return kind.resource, (namespace or "") if kind.namespaced else "", name

    def current(self, kind: Kind[T], namespace: str | None, name: str) -> tuple[StoredEntry, T]:
        """The object that a write must start from.

        Raises:
            NotFound: it does not exist.
        """
        entry = self.store.latest(self.key(kind, namespace, name))
        if entry is None:
            raise failures.not_found(kind, name)
        return entry, encoding.read(kind, entry.data)

    async def load(self, kind: Kind[T], namespace: str | None, name: str) -> tuple[StoredEntry, T]:
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
            obj = await aside(encoding.read, kind, entry.data)
            if self.store.latest(entry.key) is entry:
                return entry, obj
        return self.current(kind, namespace, name)

    def find(self, kind: Kind[T], name: str, namespace: str | None = None) -> T | None:
        """An object for admission to look at, or None."""
        entry = self.store.latest(self.key(kind, namespace, name))
        return encoding.read(kind, entry.data) if entry else None

    def all(self, kind: Kind[T], namespace: str | None = None) -> Iterator[T]:
        """Objects for admission to look at."""
        return (encoding.read(kind, entry.data) for entry in self.store.scan_latest(kind.resource, namespace))

    def put(self, kind: Kind[Any], obj: Object, expected: int) -> Awaitable[list[StoredEntry]]:
        """Queue an object that was prepared from revision ``expected`` (0: new); answered when it is on disk.

        Raises:
            Conflict: the object has another revision by now.
        """
        return self.commit(kind, [self.change(kind, obj, expected)])

    def change(self, kind: Kind[Any], obj: Object, expected: int, *, delete: bool = False) -> Change:
        """A change of one object."""
        key = self.key(kind, obj.metadata.namespace, obj.metadata.name)
        return Change(key, expected, lambda revision: encoding.write(obj, revision), delete, obj)

    def commit(self, kind: Kind[Any], changes: Iterable[Change]) -> Awaitable[list[StoredEntry]]:
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


# One request to write an object: which object, by whom, and with which options.


@dataclass(frozen=True, slots=True)
class Write:
    """What create, update, patch and apply have in common.

    Attributes:
        context: the store and the rules.
        kind: as the URL names it; answers are shown as this kind.
        stored: the same under its stored version.
        namespace: None for cluster-scoped kinds.
        name: empty for a new object.
        options: name the writer.
        subresource: ``status``, ``scale`` or empty.
        warnings: for the writer; filled in while the request is worked on.
    """

    context: Context
    kind: Kind[Any]
    stored: Kind[Any]
    namespace: str | None
    name: str
    options: WriteOptions
    subresource: str = ""
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        context: Context,
        kind: Kind[Any],
        namespace: str | None,
        name: str,
        options: WriteOptions,
        subresource: str = "",
    ) -> Write:
        """A write to a kind as it is served now.

        Raises:
            NotFound: the server does not serve the kind.
        """
        return cls(context, kind, context.stored_kind(kind), namespace, name, options, subresource)

    def request(self, operation: Operation, obj: Object, old: Object | None, subresource: str = "") -> Request:
        """The request that admission sees; a new object has its name by now."""
        meta, user, groups = obj.metadata, self.options.user, self.options.groups
        if old is not None:
            meta = old.metadata
        return Request(operation, self.stored, meta.namespace, meta.name, obj, old, subresource, user, groups)

    def answer(self, data: bytes, *, created: bool = False) -> Written:
        """The answer of the write: the stored object as ``kind`` shows it."""
        return Written(encoding.as_version(data, self.stored, self.kind), created, self.warnings)
