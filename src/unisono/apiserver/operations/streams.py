"""Watch: committed events in order, selectors applied, bookmarks in between.

A stream holds a position in the shared history and nothing else; a reader that is slower than the history is kept gets
``Gone`` and lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from unisono.api.keys import INITIAL_EVENTS_END
from unisono.api.kind import Kind
from unisono.apiserver import failures
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.encoding import codec
from unisono.apiserver.operations.context import Context
from unisono.apiserver.operations.reads import Selector
from unisono.apiserver.storage.objects import Event, StoredEntry
from unisono.apiserver.types import EventType, StoreEvent
from unisono.apiserver.webhooks.conversions import data_of

BOOKMARK_SECONDS = 60.0
# Seconds. A shorter wait may end where a virtual clock, or the sum of two floats, stands still.
_SHORTEST_PAUSE = 0.001
# Events between two chances for others to run: readers in this process handle each one at once.
_CHUNK = 16


@dataclass(slots=True)
class Watch:
    """One watch request.

    Attributes:
        kind: as asked; stored: under its stored version.
        since: changes after this revision; None: the present objects first, then changes.
        timeout: seconds until the stream ends; None never.
        bookmarks: tell the revision reached once a minute and just before the end.
        mark_initial: end the present objects with a bookmark that says so.

    """

    context: Context
    kind: Kind[Any]
    stored: Kind[Any]
    namespace: str | None
    matches: Selector | None
    since: int | None
    timeout: float | None
    bookmarks: bool
    mark_initial: bool
    present: Iterable[StoredEntry] = ()
    revision: int = 0

    async def events(self) -> AsyncIterator[StoreEvent]:
        """The stream.

        Raises:
            Gone: the history up to ``since`` is no longer kept.

        """
        loop, store = asyncio.get_running_loop(), self.context.store
        end = None if self.timeout is None else loop.time() + self.timeout
        history = store.history(self.stored.resource)
        since = self.revision if self.since is None else self.since
        position = history.position_after(since)
        if position is None:
            raise failures.too_old(since, history.compacted)
        await self._know(self.present)
        for event in self._initial():
            yield event
        marked, reached = loop.time(), since
        while True:
            changed = store.changed(self.stored.resource)
            chunk = history.read(position, _CHUNK)
            if chunk is None:
                raise failures.too_old(reached, history.compacted)
            position += len(chunk)
            await self._know(self._entries(chunk, since))
            for event in self._shown(chunk, since):
                reached = event.resource_version
                yield event
            if chunk:
                # A busy history must not keep others from running, nor this stream from ending.
                await asyncio.sleep(0)
            now = loop.time()
            ending = end is not None and now >= end
            caught_up = position >= history.end
            if self.bookmarks and caught_up and (ending or now - marked >= BOOKMARK_SECONDS):
                marked = now
                yield self._bookmark(max(store.revision, since))
            if ending or (store.closed and caught_up) or self._changed():
                return
            if caught_up:
                await asyncio.wait({changed}, timeout=_pause(now, end, marked if self.bookmarks else None))

    def _changed(self) -> bool:
        """Whether the kind's definition has changed or gone: its watchers must list again."""
        if not isinstance(self.stored, CustomKind):
            return False
        current = self.context.custom.current(self.stored)
        return current is None or current.definition is not self.stored.definition

    async def _know(self, entries: Iterable[StoredEntry]) -> None:
        """Have a webhook convert what will be looked at; what was looked at before is forgotten."""
        if isinstance(self.stored, CustomKind) and self.stored.converted is not None:
            self.stored.converted.clear()
            await self.context.conversions.know(self.stored, data_of(entries))

    def _entries(self, events: Iterable[Event], since: int) -> Iterator[StoredEntry]:
        for event in events:
            entry = event.entry
            if entry.revision > since and self.namespace in (None, entry.namespace):
                yield entry
                if event.previous is not None and self.matches is not None:
                    yield event.previous

    def _initial(self) -> Iterator[StoreEvent]:
        for entry in self.present:
            if self.matches is None or self.matches(entry):
                yield self._event("ADDED", entry)
        if self.mark_initial:
            yield self._bookmark(self.revision, {INITIAL_EVENTS_END: "true"})

    def _shown(self, events: Iterable[Event], since: int) -> Iterator[StoreEvent]:
        for event in events:
            entry = event.entry
            if entry.revision <= since or (self.namespace and entry.namespace != self.namespace):
                continue
            kind = self._type(event)
            if kind is not None:
                yield self._event(kind, entry)

    def _type(self, event: Event) -> EventType | None:
        """How the change looks through the selectors: objects appear when they begin to match."""
        matches = self.matches
        if matches is None:
            return event.type
        if event.type == "DELETED":
            return "DELETED" if matches(event.previous or event.entry) else None
        now = matches(event.entry)
        if not event.complete:
            # What the object was before is not known after a restart; a DELETED too many does no harm.
            return "MODIFIED" if now else "DELETED"
        before = event.previous is not None and matches(event.previous)
        if now:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else None

    def _event(self, kind: EventType, entry: StoredEntry) -> StoreEvent:
        return StoreEvent(kind, codec.as_version(entry.data, self.stored, self.kind), entry.revision)

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> StoreEvent:
        return StoreEvent("BOOKMARK", codec.bookmark(self.kind, revision, annotations), revision)


def _pause(now: float, end: float | None, marked: float | None) -> float | None:
    """Seconds until the stream ends or is marked."""
    waits = []
    if end is not None:
        waits.append(end - now)
    if marked is not None:
        waits.append(marked + BOOKMARK_SECONDS - now)
    return max(min(waits), _SHORTEST_PAUSE) if waits else None
