"""The housekeeper, and small duties of it: aggregated roles, objects of definitions that go."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar

import structlog

from unisono.api import core
from unisono.api.conditions import has_finalizer, without
from unisono.api.core import CustomResourceDefinition
from unisono.api.kinds import CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS, EVENTS
from unisono.api.times import time_or
from unisono.apiserver import encoding
from unisono.apiserver.admission.cluster import CLEANUP
from unisono.apiserver.authorization.authorizer import aggregated_rules
from unisono.apiserver.custom.definitions import (
    NAMED_DEFINITIONS,
    NAMES_ACCEPTED,
    TERMINATING,
    accept_names,
    established,
    has_condition,
    set_condition,
)
from unisono.apiserver.encoding import read_meta
from unisono.apiserver.operations import deletion
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.deletion import removable
from unisono.apiserver.storage.objects import Event, Key, StoredEntry
from unisono.apiserver.types import DeleteOptions
from unisono.errors import ApiError
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.pace import Backoff
from unisono.kube.workqueue import WorkQueue

# Workers that keep the store in order: each takes keys from a queue and puts failed ones back with a back-off.

_log = structlog.get_logger(__name__)


class Housekeeper:
    """Runs ``handle(key)`` for queued keys, several at a time, one key never twice at once.

    Args:
        name: for the log.
        handle: does the work; an exception brings the key back later.
        workers: how many keys are in work at once; their writes share a commit.
    """

    def __init__(
        self, name: str, handle: Callable[[Key], Awaitable[None]], *, workers: int = 32, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._name, self._handle, self._workers = name, handle, workers
        self._queue = WorkQueue(clock, Backoff(base=0.05, cap=30.0))
        self._tasks: list[asyncio.Task[None]] = []

    def add(self, key: Key) -> None:
        """Queue a key."""
        self._queue.add("/".join(key))

    @property
    def idle(self) -> bool:
        """Nothing queued, delayed or in work."""
        state = self._queue.statistics()
        return not (state.ready or state.processing or state.delayed)

    def start(self) -> None:
        """Start the workers."""
        self._tasks = [asyncio.create_task(self._queue.work(self._one), name=self._name) for _ in range(self._workers)]

    async def stop(self) -> None:
        """End the workers; what is queued is found again at the next start."""
        self._queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _one(self, key: str) -> None:
        resource, namespace, name = key.split("/", 2)
        try:
            await self._handle((resource, namespace, name))
        except ApiError as error:
            self._queue.add_rate_limited(key)
            _log.warning("housekeeping failed, will retry", task=self._name, key=key, error=error.message)
        except Exception:
            # One object that cannot be handled must not end the collection of all others.
            self._queue.add_rate_limited(key)
            _log.exception("housekeeping failed, will retry", task=self._name, key=key)
        else:
            self._queue.forget(key)


class StoreController(ABC):
    """Watches the store from ``start`` to ``stop``: events queue keys, ``_handle`` does what each of them asks for.

    Args:
        context: the store, and what writes need.
        clock: for the pauses between attempts.
    """

    name: ClassVar[str]
    workers: ClassVar[int]

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._store = context, context.store
        self._keeper = Housekeeper(self.name, self._handle, workers=self.workers, clock=clock)

    @property
    def idle(self) -> bool:
        """Nothing left to look at."""
        return self._keeper.idle

    def start(self) -> None:
        """Look at what is there once, then at every change."""
        self._store.listen(self._on_event)
        self._look_at_all()
        self._keeper.start()

    async def stop(self) -> None:
        """Stop; the next start finds what is left."""
        await self._keeper.stop()

    def _look_at_all(self) -> None:  # noqa: B027 - not all look at anything at the start
        """Queue what may need something at the start."""

    @abstractmethod
    def _on_event(self, event: Event) -> None:
        """Queue what a change may need."""

    @abstractmethod
    async def _handle(self, key: Key) -> None:
        """Do what one object needs."""


# Aggregated ClusterRoles: their rules follow the roles that they select.

_ALL: Key = (CLUSTER_ROLES.resource, "", "*")


class RoleAggregation(StoreController):
    """Keeps the rules of aggregated roles."""

    # One worker: a role may select another that is aggregated itself, and they must settle one after the other.
    name, workers = "role aggregation", 1

    def _look_at_all(self) -> None:
        self._keeper.add(_ALL)

    def _on_event(self, event: Event) -> None:
        if event.entry.resource == CLUSTER_ROLES.resource:
            self._keeper.add(_ALL)

    async def _handle(self, _: Key) -> None:
        context = self._context
        for entry in list(self._store.scan_latest(CLUSTER_ROLES.resource)):
            role = encoding.read(CLUSTER_ROLES, entry.data)
            if role.aggregation_rule is None or role.metadata.deletion_timestamp:
                continue
            rules = aggregated_rules(role, context.all(CLUSTER_ROLES))
            current = self._store.latest(entry.key)
            if (role.rules or []) == rules or current is None or current.revision != entry.revision:
                continue  # what changed meanwhile brings us back
            role.rules = rules
            await context.put(CLUSTER_ROLES, role, entry.revision)


# Ending definitions take their objects along; names that become free go to definitions that wait for them.

_RESOURCE = CUSTOM_RESOURCE_DEFINITIONS.resource


class DefinitionController(StoreController):
    """Accepts the names of definitions, and ends those that go."""

    # One at a time: what one definition is given, the next one cannot have.
    name, workers = "definition controller", 1

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(context, clock=clock)
        self._ending: set[str] = set()
        self._waiting: set[str] = set()

    def _look_at_all(self) -> None:
        for entry in self._store.scan(_RESOURCE):
            self._note(entry)

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
        if has_condition(encoding.read(NAMED_DEFINITIONS, entry.data), NAMES_ACCEPTED):
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
        crd = encoding.read(CUSTOM_RESOURCE_DEFINITIONS, entry.data)
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
        if encoding.render(crd) == entry.data:
            return
        change = self._context.change(kind, crd, entry.revision, delete=removable(crd))
        await self._context.commit(kind, [change])


# Events live for an hour after they were last seen, whatever the machine's clock does in between.

EVENT_SECONDS = 3600.0
PERIOD_SECONDS = 60.0
# Where the wall clock goes so much further than the steady one, it was set, or the machine slept.
_JUMP_SECONDS = 30.0


class EventExpiry:
    """Deletes old events once a minute."""

    def __init__(self, context: Context, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._context, self._clock = context, clock
        self._task: asyncio.Task[None] | None = None
        self._wall, self._steady = context.clock(), clock.monotonic()
        self._ahead, self._until = 0.0, 0.0

    def start(self) -> None:
        """Start."""
        self._task = asyncio.create_task(self._run(), name="event expiry")

    async def stop(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def sweep(self) -> int:
        """Delete what is too old; answers how many."""
        self._look_at_clocks()
        oldest = self._wall - EVENT_SECONDS - self._ahead
        entries = self._context.store.scan(EVENTS.resource)
        old = [entry for entry in entries if last_seen(encoding.read(EVENTS, entry.data)) < oldest]
        await deletion.delete_all(self._context, EVENTS, old, DeleteOptions())
        return len(old)

    def _look_at_clocks(self) -> None:
        """Take a jump of the wall clock as no time at all: events from before it keep the rest of their hour."""
        wall, steady = self._context.clock(), self._clock.monotonic()
        jump = (wall - self._wall) - (steady - self._steady)
        if steady >= self._until:
            self._ahead = 0.0  # who is left was seen after the last jump
        if abs(jump) > _JUMP_SECONDS:
            self._ahead, self._until = max(0.0, self._ahead + jump), steady + EVENT_SECONDS
        self._wall, self._steady = wall, steady

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            try:
                await self.sweep()
            except ApiError as error:
                _log.warning("old events remain, will retry", error=error.message)


def last_seen(event: core.Event) -> float:
    """When an event happened last, in seconds since 1970; 0 when it does not say."""
    series = event.series.last_observed_time if event.series else None
    texts = (event.last_timestamp, event.event_time, series, event.metadata.creation_timestamp)
    return max((time_or(text) for text in texts if text), default=0.0)
