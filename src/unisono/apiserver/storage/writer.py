"""The one thread that writes: requests that arrive during a sync are committed together by the next one."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from unisono.apiserver.storage.database import Loaded
from unisono.apiserver.storage.objects import Event

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
