"""The running history: watches feed a ledger, and what it has made of them is stored every few seconds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

from unisono.api.base import Object
from unisono.api.groups.resource_metrics import POD_METRICS, PodMetrics
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES, QUEUES
from unisono.api.quantity import QuantityError
from unisono.api.resources import resource_list
from unisono.errors import ApiError
from unisono.history.database import Bounds, Database
from unisono.history.ledger import KINDS, SHARED_KINDS, Ledger
from unisono.history.records import Changes, Memory
from unisono.history.storage import HistoryError, NotStored, Storage
from unisono.kube.client import Client, EventType
from unisono.kube.clock import SYSTEM_CLOCK, Clock
from unisono.kube.reflector import Reflector
from unisono.lazy_logs import LazyLogger

T = TypeVar("T")

_log = LazyLogger(__name__)

# How often what has changed is stored, what is shared is looked at, and old records become sums (seconds).
_STORE_SECONDS = 2.0
_SAMPLE_SECONDS = 60.0
_FIRST_SAMPLES_SECONDS = 6.0
_COMPACT_SECONDS = 3600.0
# How often the memory of pods is asked for, where few run and where many do; from where on it is not asked for.
_MEASURE_SECONDS, _MEASURE_MANY_SECONDS = 10.0, 60.0
_MANY_PODS, _MOST_PODS = 500, 50_000
_ABSENT_SECONDS = 60.0
# A watch from too long ago is refused sooner than this.
_REFUSED_SECONDS = 10.0
# Records that wait in memory for a storage that fails.
_MOST_WAITING = 300_000
# The namespace whose UID tells clusters apart.
_IDENTITY = "kube-system"


def one_thread() -> Executor:
    """A thread in which calls take turns."""
    return ThreadPoolExecutor(1, thread_name_prefix="history")


class Recorder:
    """Keeps the history of one cluster in one storage.

    Args:
        client: reads jobs, what is between them and their pods, PodGroups, pods, queues and nodes.
        storage: where.
        bounds: how much is kept.
        clock: the time.
        executor: makes what runs the storage's calls, one at a time.
    """

    def __init__(
        self,
        client: Client,
        storage: Storage,
        *,
        bounds: Bounds | None = None,
        clock: Clock = SYSTEM_CLOCK,
        executor: Callable[[], Executor] = one_thread,
    ) -> None:
        self._client, self._clock, self._bounds = client, clock, bounds or Bounds()
        self._executor = executor
        self._database = Database(storage)
        self._waiting: Changes | None = None
        self._told = ""
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Record until cancelled; then store what is left.

        Raises:
            HistoryError: the storage cannot be used, or another process has taken it over.
            ApiError: the server cannot be asked which cluster it is.
        """
        thread = self._executor()
        try:
            await self._record(thread)
        finally:
            # A cancelled task may still wait for its last write.
            await asyncio.get_running_loop().run_in_executor(thread, self._database.close)
            thread.shutdown()

    async def _record(self, thread: Executor) -> None:
        async def within(work: Callable[..., T], *arguments: Any) -> T:
            return await asyncio.get_running_loop().run_in_executor(thread, work, *arguments)

        memory = await within(self._database.open)
        if self._database.damaged:
            _log.error("history.damaged", kept=self._database.damaged)
        if not await self._continues(memory, within):
            _log.info("history.listed_again")
            memory.versions = {}
        ledger = Ledger(memory, self._trouble)
        reflectors = [self._reflector(kind, ledger) for kind in (*KINDS, *SHARED_KINDS)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each.run()) for each in reflectors]
            try:
                for each in reflectors:
                    await each.synced.wait()
                self.ready.set()
                await self._keep(ledger, reflectors, within)
            finally:
                for task in tasks:
                    task.cancel()
                with contextlib.suppress(NotStored, HistoryError):
                    await within(self._database.store, self._due(ledger))

    async def _keep(self, ledger: Ledger, reflectors: Sequence[Reflector[Any]], within: Any) -> None:
        sampled = compacted = measured = float("-inf")
        started = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            # Who has just begun looks at what it shows.
            pause = _FIRST_SAMPLES_SECONDS if now - started < _SAMPLE_SECONDS else _SAMPLE_SECONDS
            for each in reflectors:
                if _is_alive(each, now - started):
                    ledger.tick(each.kind, self._now())
            full = now - sampled >= pause
            if full:
                sampled = now
                ledger.sample(self._now())
            await self._store(ledger, within, full=full)
            if now - measured >= (_MEASURE_SECONDS if ledger.running < _MANY_PODS else _MEASURE_MANY_SECONDS):
                measured = now
                await self._measure(ledger)
            if now - compacted >= _COMPACT_SECONDS:
                compacted = now
                await self._compact(within)
            await self._clock.sleep(_STORE_SECONDS)

    async def _measure(self, ledger: Ledger) -> None:
        """Ask what pods use; a server without ``metrics.k8s.io``, or that does not let us ask, tells nothing."""
        if not 0 < ledger.running <= _MOST_PODS:
            return
        try:
            metrics = (await self._client.list(POD_METRICS)).items
        except ApiError:
            return
        ledger.measure({(each.metadata.namespace or "", each.metadata.name): memory_of(each) for each in metrics})

    async def _store(self, ledger: Ledger, within: Any, *, full: bool) -> None:
        """Store what has changed; ``full`` also how long the server has been heard of, where nothing has."""
        # Kept for the next time until it is stored: neither a full disk nor a cancelled write loses anything.
        self._waiting = changes = self._due(ledger)
        if changes.empty and not full:
            return
        try:
            await within(self._database.store, changes)
        except NotStored as error:
            self._tell(f"{error}")
            if changes.number > _MOST_WAITING:
                raise HistoryError(
                    f"{self._database.storage.name} has not stored anything for long: what happened since then is "
                    "asked of the API server again"
                ) from error
            return
        self._waiting = None
        self._tell("")

    def _due(self, ledger: Ledger) -> Changes:
        changes, waiting = ledger.take(self._now()), self._waiting
        self._waiting = None
        return changes if waiting is None else waiting.then(changes)

    async def _compact(self, within: Any) -> None:
        try:
            await within(self._database.compact, self._now(), self._bounds)
        except NotStored as error:
            _log.warning("history.not_compacted", error=str(error))

    async def _continues(self, memory: Memory, within: Any) -> bool:
        """Whether the server is the one that was followed, and has not been set back to an earlier state."""
        try:
            identity = (await self._client.get(NAMESPACES, _IDENTITY)).metadata.uid or ""
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            identity = ""
        same = await within(self._database.belongs_to, identity)
        reached = (await self._client.list(QUEUES)).resource_version
        stored_versions = [int(version) for version in memory.versions.values() if version.isdigit()]
        return same and (not reached.isdigit() or int(reached) >= max(stored_versions, default=0))

    def _reflector(self, kind: Kind[Any], ledger: Ledger) -> Reflector[Any]:
        sink = _Sink(kind, ledger, self._now)
        sink.reflector = Reflector(
            self._client,
            kind,
            sink,
            clock=self._clock,
            absent_seconds=_ABSENT_SECONDS,
            resume_from="" if kind in SHARED_KINDS else ledger.versions.get(kind.resource, ""),
        )
        return sink.reflector

    def _now(self) -> int:
        return round(self._clock.time() * 1000)

    def _tell(self, error: str) -> None:
        """Log a failure once, and its end."""
        if error and error != self._told:
            _log.warning("history.not_stored", error=error)
        elif self._told and not error:
            _log.info("history.stored_again")
        self._told = error

    def _trouble(self, kind: Kind[Any], obj: Object, error: Exception) -> None:
        _log.warning("history.set_aside", resource=kind.resource, key=obj.key, error=repr(error))


def memory_of(measured: PodMetrics) -> int:
    """Bytes that the containers of a pod use together; what cannot be read counts for nothing."""
    total = 0
    for container in measured.containers or ():
        try:
            total += resource_list(container.usage).get("memory", 0)
        except QuantityError:
            continue
    return total


def _is_alive(reflector: Reflector[Any], seconds: float) -> bool:
    """Whether the server tells of this kind all that happens, ``seconds`` after the start."""
    counts = reflector.statistics()
    return not counts.failures and bool(counts.lists or counts.events or seconds >= _REFUSED_SECONDS)


class _Sink:
    """Hands one kind's events to the ledger."""

    reflector: Reflector[Any]

    def __init__(self, kind: Kind[Any], ledger: Ledger, now: Callable[[], int]) -> None:
        self._kind, self._ledger, self._now = kind, ledger, now

    def replace(self, objects: Sequence[Object], unread: Sequence[tuple[Object, str]] = ()) -> None:
        uids = [obj.metadata.uid or "" for obj, _ in unread]
        self._ledger.replace(self._kind, objects, self.reflector.resource_version, self._now(), uids)

    def refuse(self, obj: Object, why: str) -> None:
        """It stays as it was last known; the client has logged it."""

    def apply(self, event_type: EventType, obj: Object) -> None:
        self._ledger.apply(self._kind, obj, self._now(), deleted=event_type == "DELETED")
