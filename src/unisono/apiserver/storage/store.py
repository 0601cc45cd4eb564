"""The store: every object in memory, every change on disk before it is visible, one counter for all versions.

A writer reads ``latest`` (which includes changes that are on their way to the disk), prepares the new object and calls
``write`` without giving up the event loop in between; compare-and-set therefore happens in one order. Readers see
committed objects only. A change becomes visible, and its future resolves, after the disk has it.

When a transaction fails, every change that was prepared on top of it fails with it, and the store goes on from the
last committed state. A store belongs to the event loop that opened it.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import structlog

from unisono.apiserver import failures
from unisono.apiserver.storage.database import MEMORY, Database, Loaded
from unisono.apiserver.storage.files import DiskFullError
from unisono.apiserver.storage.objects import Collection, Event, History, Key, NamespaceSizes, Retention, StoredEntry
from unisono.errors import Unavailable, UnisonoError

# The one thread that writes: requests that arrive during a sync are committed together by the next one.

MAX_BATCH = 2_000
COMPACT_EVERY = 2_000


class Disk(Protocol):
    """What the writer needs of a database."""

    def open(self) -> None:
        """Open or create."""
        ...

    def load(self) -> Loaded:
        """Read everything."""
        ...

    def apply(self, events: Sequence[Event], *, compact_to: int = 0) -> None:
        """Store durably, all or none; raises on failure."""
        ...

    def backup(self, path: Path) -> None:
        """Write a copy; raises on failure."""
        ...

    def close(self) -> None:
        """Close."""
        ...


@dataclass(slots=True, eq=False)
class Commit:
    """Changes of one request: they become visible together.

    Attributes:
        epoch: counts failures; a commit that was prepared before a failure may build on lost changes and fails too.
        events: the changes, in the order of their revisions.
        done: called by ``Writer`` through ``post``; takes the error, or None.
    """

    epoch: int
    events: list[Event]
    done: Callable[[Exception | None], None]


@dataclass(slots=True, eq=False)
class _Copy:
    """A wish for a copy of everything that was submitted before."""

    path: Path
    done: Future[None] = field(default_factory=Future)


class Writer:
    """Commits in the order of ``submit``; results come back through ``post`` (``loop.call_soon_threadsafe``).

    ``on_batch(commits, error)`` runs once per transaction, on the other side of ``post``.
    """

    def __init__(
        self,
        disk: Disk,
        post: Callable[[Callable[[], None]], None],
        on_batch: Callable[[list[Commit], Exception | None], None],
        *,
        keep_events: int,
        keep_bytes: int,
    ) -> None:
        self._disk, self._post, self._on_batch = disk, post, on_batch
        self._keep_events, self._keep_bytes = keep_events, keep_bytes
        # Of the history on the disk, oldest first: the last revision of each batch, and its bytes.
        self._written: deque[tuple[int, int]] = deque()
        self._written_bytes = 0
        self._queue: queue.SimpleQueue[Commit | _Copy | None] = queue.SimpleQueue()
        self._loaded: Future[Loaded] = Future()
        self._failed_epoch = -1
        self._failure = Exception()
        self._since_compaction = 0
        self._thread = threading.Thread(target=self._run, name="unisono-store", daemon=True)

    def start(self) -> Future[Loaded]:
        """Start the thread; the future gives the file's contents or the ``StoreError``."""
        self._thread.start()
        return self._loaded

    def submit(self, commit: Commit) -> None:
        """Queue a commit."""
        self._queue.put(commit)

    def backup(self, path: Path) -> Future[None]:
        """Copy everything that was submitted so far to ``path``; the future fails with what the disk says."""
        copy = _Copy(path)
        self._queue.put(copy)
        return copy.done

    def stop(self) -> None:
        """Commit what is queued, close the file and end the thread; blocks until then."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        if self._begin():
            while self._step():
                pass

    def _begin(self) -> bool:
        """Open the file; answers whether there is something to write to."""
        try:
            self._disk.open()
            loaded = self._disk.load()
        except Exception as error:  # whatever it is, the opener must learn of it instead of waiting for ever
            self._disk.close()
            self._loaded.set_exception(error)
            return False
        for event in loaded.events:
            self._note([event])
        self._loaded.set_result(loaded)
        return True

    def _step(self) -> bool:
        """One transaction of what is queued, or wait for something; the last one closes the file and answers False."""
        goes_on = self._commit(self._take())
        if not goes_on:
            self._disk.close()
        return goes_on

    def _take(self) -> list[Commit | _Copy | None]:
        batch = [self._queue.get()]
        size = 0
        # A copy ends the batch: it holds what came before it.
        while size < MAX_BATCH and isinstance(batch[-1], Commit):
            size += len(batch[-1].events)
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _commit(self, batch: list[Commit | _Copy | None]) -> bool:
        commits = [commit for commit in batch if isinstance(commit, Commit)]
        lost = [commit for commit in commits if commit.epoch <= self._failed_epoch]
        good = [commit for commit in commits if commit.epoch > self._failed_epoch]
        if lost:
            self._report(lost, self._failure)
        if good:
            self._report(good, self._store(good))
        if isinstance(batch[-1], _Copy):
            self._copy(batch[-1])
        return batch[-1] is not None

    def _copy(self, copy: _Copy) -> None:
        try:
            self._disk.backup(copy.path)
        except Exception as error:  # the thread goes on; who asked gets the error
            copy.done.set_exception(error)
        else:
            copy.done.set_result(None)

    def _store(self, commits: list[Commit]) -> Exception | None:
        events = [event for commit in commits for event in commit.events]
        self._since_compaction += len(events)
        compact_to = self._compaction(events)
        try:
            self._disk.apply(events, compact_to=compact_to)
        except Exception as error:  # the thread must outlive a full disk; the requests get the error
            self._failed_epoch, self._failure = commits[-1].epoch, error
            return error
        if compact_to or self._since_compaction >= COMPACT_EVERY:
            self._since_compaction = 0
        return None

    def _note(self, events: Sequence[Event]) -> None:
        size = sum(len(event.entry.data) for event in events)
        self._written.append((events[-1].entry.revision, size))
        self._written_bytes += size

    def _compaction(self, events: Sequence[Event]) -> int:
        """Up to which revision history leaves the disk now that ``events`` come; 0: none does."""
        compact_to = 0
        if self._since_compaction >= COMPACT_EVERY:
            compact_to = max(0, events[0].entry.revision - self._keep_events)
        self._note(events)
        room = self._keep_bytes
        if self._written_bytes > room:
            # More than needed, so that not every large write deletes.
            room -= room // 8
        while len(self._written) > 1 and (self._written_bytes > room or self._written[0][0] <= compact_to):
            revision, size = self._written.popleft()
            self._written_bytes -= size
            compact_to = max(compact_to, revision)
        return compact_to

    def _report(self, commits: list[Commit], error: Exception | None) -> None:
        self._post(lambda: self._on_batch(commits, error))


_log = structlog.get_logger(__name__)

# Writers that go on at once after a transaction: each has its answer to make.
_ANSWERS = 4
# How often is told that writes go on failing (seconds): the log may be on the disk that is full.
_TELL_SECONDS = 60.0


class StaleWriteError(UnisonoError):
    """Compare-and-set failed: the object is not at the expected revision."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change to make.

    Attributes:
        key: ``(resource, namespace, name)``.
        expected: revision of the object that the change was prepared from; 0: there must be none.
        encode: gives the stored bytes for the revision that the change gets; for a deletion the last state.
        delete: remove the object.
        obj: the object that ``encode`` encodes, for code that looks at changes before they are queued.
    """

    key: Key
    expected: int
    encode: Callable[[int], bytes]
    delete: bool = False
    obj: Any = None


class Store:
    """Objects by ``(resource, namespace, name)``; open with ``Store.open``."""

    def __init__(
        self, disk: Disk, clock: Callable[[], float], retention: Retention, writer: type[Writer] = Writer
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock, self._retention = clock, retention
        self._collections: dict[str, Collection] = {}
        self._pending: dict[Key, Event] = {}
        self._sizes = NamespaceSizes()
        self._listeners: list[Callable[[Event], None]] = []
        self._revision = self._assigned = self._compacted = 0
        self._any_change: asyncio.Future[None] | None = None
        self._epoch = 0
        self._answers: deque[Commit] = deque()
        self._soon: Callable[[Callable[[], None]], object] = self._loop.call_soon
        self._closed = False
        self._batches = self._failures = self._largest = 0
        self._refused, self._told, self._tell_at = 0, False, 0.0
        self._remembered = 0
        self._writer = writer(
            disk, self._post, self._on_batch, keep_events=retention.events, keep_bytes=retention.most_bytes
        )

    @classmethod
    async def open(
        cls,
        path: Path | str = MEMORY,
        *,
        clock: Callable[[], float] = time.time,
        retention: Retention | None = None,
        disk: Disk | None = None,
        writer: type[Writer] = Writer,
    ) -> Store:
        """Open or create the data file at ``path``; ``:memory:`` keeps nothing.

        Args:
            path: of the file.
            clock: wall clock, seconds since 1970.
            retention: how much history is kept.
            disk: what is written to in place of the file at ``path``.
            writer: writes; one without a thread makes a simulation repeatable.

        Raises:
            StoreError: the file is foreign, damaged or in use.
        """
        store = cls(disk or Database(path), clock, retention or Retention(), writer)
        loading = asyncio.wrap_future(store._writer.start())
        try:
            # Without the shield the thread would find its future cancelled when it has read the file.
            store._adopt(await asyncio.shield(loading))
        except asyncio.CancelledError:
            # The caller that cancels may take the folder away next: the thread has to be out of it.
            await asyncio.to_thread(store._writer.stop)
            await asyncio.gather(loading, return_exceptions=True)
            raise
        return store

    @property
    def revision(self) -> int:
        """Revision of the newest committed change."""
        return self._revision

    def get(self, key: Key) -> StoredEntry | None:
        """The committed object."""
        collection = self._collections.get(key[0])
        return collection.get(key) if collection else None

    def latest(self, key: Key) -> StoredEntry | None:
        """The object as the next write must see it: committed or on its way to the disk."""
        pending = self._pending.get(key)
        if pending is not None:
            return None if pending.type == "DELETED" else pending.entry
        return self.get(key)

    def scan(self, resource: str, namespace: str | None = None) -> Sequence[StoredEntry]:
        """Committed objects of a resource, sorted by namespace and name."""
        collection = self._collections.get(resource)
        return collection.sorted(namespace) if collection else ()

    def scan_latest(self, resource: str, namespace: str | None = None) -> Iterator[StoredEntry]:
        """Objects as the next write must see them, in no order."""
        for entry in self.scan(resource, namespace):
            if entry.key not in self._pending:
                yield entry
        for key, event in self._pending.items():
            if key[0] == resource and namespace in (None, key[1]) and event.type != "DELETED":
                yield event.entry

    def stored_bytes(self, namespace: str) -> int:
        """Bytes of all objects of a namespace, as the next write must see them."""
        return self._sizes.of(namespace)

    def resources(self) -> list[str]:
        """Resources that have, or had, objects."""
        return list(self._collections)

    def history(self, resource: str) -> History:
        """Recent events of a resource."""
        return self._collection(resource).history

    def changed(self, resource: str) -> asyncio.Future[None]:
        """A future that resolves at the next change of the resource, or when the store closes; do not cancel it."""
        return self._collection(resource).changed()

    def wake(self, resource: str) -> None:
        """Wake all who wait for a change of the resource, though its objects are as they were."""
        self._collection(resource).wake()

    def any_change(self) -> asyncio.Future[None]:
        """A future that resolves at the next change of anything; do not cancel it."""
        if self._any_change is None:
            self._any_change = self._loop.create_future()
        return self._any_change

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` with every committed event from now on; it must be quick and must not raise."""
        self._listeners.append(listener)

    def answer_by(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """Have ``soon`` say when the next few writers of a transaction are answered."""
        self._soon = soon

    def write(self, changes: Sequence[Change]) -> asyncio.Future[list[StoredEntry]]:
        """Queue changes that are stored together or not at all.

        Returns:
            A future of the entries as stored (for deletions the last state). It fails with ``Unavailable`` when
            the disk refuses (code 507 where it is full); then nothing of ``changes`` is visible.

        Raises:
            StaleWriteError: an object is not at its expected revision; nothing was queued.
        """
        if self._closed:
            raise failures.stopping()
        for change in changes:
            current = self.latest(change.key)
            if (current.revision if current else 0) != change.expected:
                raise StaleWriteError(f"{'/'.join(change.key)} changed")
        events = [self._event(change) for change in changes]
        for event in events:
            self._pending[event.entry.key] = event
            self._sizes.follow(event)
        future: asyncio.Future[list[StoredEntry]] = self._loop.create_future()
        entries = [event.entry for event in events]

        def done(error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(entries)
            else:
                future.set_exception(_refusal(error))

        self._writer.submit(Commit(self._epoch, events, done))
        return future

    async def backup(self, path: Path) -> None:
        """Write a copy of everything that has been queued so far to ``path``.

        Raises:
            Unavailable: the store is closing, or the disk refuses.
        """
        if self._closed:
            raise failures.stopping()
        try:
            await asyncio.wrap_future(self._writer.backup(path))
        except (OSError, sqlite3.Error) as error:
            raise _refusal(error) from error

    async def close(self) -> None:
        """Finish queued writes, close the file and end all watches."""
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._writer.stop)
        await asyncio.sleep(0)  # results of the last batch are handed over by the loop
        while self._answers:
            self._answer()
        for collection in self._collections.values():
            collection.wake()
        self._wake_any()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    @property
    def pending(self) -> int:
        """Writes that are not on disk yet."""
        return len(self._pending)

    def statistics(self) -> dict[str, int]:
        """Counters for metrics and tests."""
        return {
            "revision": self._revision,
            "objects": sum(len(collection) for collection in self._collections.values()),
            "pending": len(self._pending),
            "batches": self._batches,
            "largest_batch": self._largest,
            "failed_batches": self._failures,
            "history": sum(len(collection.history) for collection in self._collections.values()),
            "history_bytes": self._remembered,
        }

    def _event(self, change: Change) -> Event:
        self._assigned += 1
        entry = StoredEntry(*change.key, self._assigned, change.encode(self._assigned))
        previous = self.latest(change.key)
        if change.delete:
            return Event("DELETED", entry, previous, self._clock())
        return Event("MODIFIED" if previous else "ADDED", entry, previous, self._clock())

    def _collection(self, resource: str) -> Collection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = Collection(History(self._retention, self._compacted), self._loop)
        return collection

    def _adopt(self, loaded: Loaded) -> None:
        self._revision = self._assigned = loaded.revision
        self._compacted = loaded.compacted
        for entry in loaded.objects:
            self._collection(entry.resource).put(entry)
        self._sizes.count(loaded.objects)
        for event in loaded.events:
            self._remember(event)

    def _entries(self) -> Iterator[StoredEntry]:
        return (entry for collection in self._collections.values() for entry in collection.sorted(None))

    def _post(self, callback: Callable[[], None]) -> None:
        # On a closed loop nothing waits for the answer.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def _on_batch(self, commits: list[Commit], error: Exception | None) -> None:
        if error is not None:
            self._fail(commits, error)
            return
        if self._told:
            # Not a reason to tell of the next failure at once: small changes may find the room that large ones do not.
            _log.info("writes work again", refused=self._refused)
            self._refused, self._told = 0, False
        self._batches += 1
        self._largest = max(self._largest, len(commits))
        for commit in commits:
            for event in commit.events:
                self._publish(event)
        self._wake_any()
        self._answers.extend(commits)
        if len(self._answers) == len(commits):
            self._answer()

    def _answer(self) -> None:
        """Tell a few writers that the disk has it, and the next ones soon."""
        for _ in range(min(_ANSWERS, len(self._answers))):
            self._answers.popleft().done(None)
        if self._answers:
            self._soon(self._answer)

    def _publish(self, event: Event) -> None:
        key = event.entry.key
        if self._pending.get(key) is event:
            del self._pending[key]
        self._revision = event.entry.revision
        collection = self._collection(key[0])
        if event.type == "DELETED":
            collection.remove(key)
        else:
            collection.put(event.entry)
        self._remember(event)
        collection.wake()
        for listener in self._listeners:
            listener(event)

    def _remember(self, event: Event) -> None:
        history = self._collection(event.entry.resource).history
        before = history.size
        history.append(event)
        self._remembered += history.size - before
        while self._remembered > self._retention.most_bytes:
            # A client that writes large objects again and again loses their history, and hardly that of others.
            largest = max((each.history for each in self._collections.values()), key=lambda each: each.size)
            before = largest.size
            largest.shrink(before - self._retention.most_bytes // 8)
            if largest.size == before:
                return
            self._remembered += largest.size - before

    def _wake_any(self) -> None:
        if self._any_change is not None:
            self._any_change.set_result(None)
            self._any_change = None

    def _fail(self, commits: list[Commit], error: Exception) -> None:
        if commits[-1].epoch >= self._epoch:
            # Whatever is pending was prepared on top of the lost changes, and the writer refuses it too.
            self._epoch = commits[-1].epoch + 1
            self._pending.clear()
            self._sizes.count(self._entries())
            self._failures += 1
            self._tell(error)
        self._refused += len(commits)
        for commit in commits:
            commit.done(error)

    def _tell(self, error: Exception) -> None:
        """Log a failure, and those of the next minute not at all."""
        now = self._loop.time()
        if now >= self._tell_at:
            self._told, self._tell_at = True, now + _TELL_SECONDS
            _log.error("write failed", error=str(error), requests_refused_before=self._refused)


def _refusal(error: Exception) -> Unavailable:
    why = str(error)
    return failures.disk_full(why) if isinstance(error, DiskFullError) else failures.storage_failed(why)
