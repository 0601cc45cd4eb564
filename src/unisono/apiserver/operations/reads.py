"""Reads of objects: one, lists with selectors and pages, and streams of changes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import bisect
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import msgspec

from unisono.api.field_error import UNREADABLE
from unisono.api.keys import INITIAL_EVENTS_END, META_API_VERSION
from unisono.api.kind import Kind
from unisono.apiserver import encoding, failures
from unisono.apiserver.custom.definitions import find_value
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.operations.context import Context
from unisono.apiserver.selectors import (
    EntryMatcher,
    Reader,
    compile_field_selector,
    parse_field_selector,
    parse_label_selector,
    selected_name,
)
from unisono.apiserver.storage.objects import Event, StoredEntry
from unisono.apiserver.storage.store import Store
from unisono.apiserver.types import EventType, Page, StoreEvent
from unisono.apiserver.webhooks.calling import data_of

# Get and list: selection, paging over one snapshot, and objects as they were at an earlier revision.

# The objects of a resource as they were at an earlier revision, undone from the history that watches read.


def at_revision(store: Store, resource: str, revision: int) -> Sequence[StoredEntry]:
    """All objects of ``resource`` right after ``revision``, by namespace and name.

    Raises:
        Gone: the history back to there is no longer kept.
    """
    history = store.history(resource)
    position = history.position_after(revision)
    if position is None:
        raise failures.too_old(revision, history.compacted)
    events = history.read(position, history.end - position) or ()
    if not events:
        return store.scan(resource, None)
    entries_by_key = {entry.key[1:]: entry for entry in store.scan(resource, None)}
    for event in reversed(events):
        key = event.entry.key[1:]
        if event.type == "ADDED":
            entries_by_key.pop(key, None)
        elif event.previous is None:
            # History that was read back after a restart does not say what was there before.
            raise failures.too_old(revision, event.entry.revision)
        else:
            entries_by_key[key] = event.previous
    return [entries_by_key[key] for key in sorted(entries_by_key)]


def within(entries: Sequence[StoredEntry], namespace: str | None) -> Sequence[StoredEntry]:
    """Those of sorted entries that are in ``namespace``; all of them for None."""
    if not namespace:
        return entries
    start = bisect.bisect_left(entries, namespace, key=lambda entry: entry.namespace)
    end = bisect.bisect_right(entries, namespace, key=lambda entry: entry.namespace)
    return entries[start:end]


# Field selectors over ``selectableFields`` of a definition.

_JSON = msgspec.json.Decoder().decode


def custom_selector(text: str, kind: CustomKind) -> EntryMatcher | None:
    """Compile a selector for a user-defined kind; None when it selects everything.

    Raises:
        ApiError: 400 for a syntax error or a field that the version does not offer.
    """

    def reader(label: str) -> Reader | None:
        return _reader(kind, label) if label in kind.details.selectable else None

    return compile_field_selector(text, reader)


def _reader(kind: CustomKind, path: str) -> Reader:
    def read(entry: StoredEntry) -> str:
        return _text(find_value(_JSON(kind.view(entry.data)), path))

    return read


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


# Get and list: selection, paging over one snapshot.

Selector = Callable[[StoredEntry], bool]
Place = tuple[str, str]
_WAIT_FOR_REVISION = 3.0
_SNAPSHOTS = 32
_SNAPSHOT_SECONDS = 300.0


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str
    query: str


@dataclass(slots=True)
class _Snapshot:
    entries: Sequence[StoredEntry]
    last: Place | None
    born: float


class Shown(Sequence[bytes]):
    """Entries as a version of their kind shows them, each when it is asked for.

    Args:
        entries: what is stored.
        stored: the kind under its stored version.
        kind: as it was asked for.
    """

    __slots__ = ("_asked", "_entries", "_stored")

    def __init__(self, entries: Sequence[StoredEntry], stored: Kind[Any], kind: Kind[Any]) -> None:
        self._entries, self._stored, self._asked = entries, stored, kind

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return Shown(self._entries[index], self._stored, self._asked)
        return encoding.as_version(self._entries[index].data, self._stored, self._asked)


class Snapshots:
    """The unread rest of lists that are being paged: the newest few, for five minutes.

    Entries are shared with the store, so that a snapshot holds only what has changed since.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, int], _Snapshot] = OrderedDict()

    def keep(self, query: str, revision: int, entries: Sequence[StoredEntry], last: Place | None) -> None:
        """Remember what a list found, and where the last object is among which it searched."""
        self._kept.setdefault((query, revision), _Snapshot(entries, last, self._clock()))
        self._kept.move_to_end((query, revision))
        while len(self._kept) > _SNAPSHOTS:
            self._kept.popitem(last=False)

    def find(self, query: str, revision: int) -> tuple[Sequence[StoredEntry], Place | None] | None:
        """What was kept, if it is still known."""
        now = self._clock()
        for key in [key for key, kept in self._kept.items() if now - kept.born > _SNAPSHOT_SECONDS]:
            del self._kept[key]
        snapshot = self._kept.get((query, revision))
        return (snapshot.entries, snapshot.last) if snapshot else None


def parse_revision(text: str) -> int | None:
    """A resourceVersion parameter; None when absent.

    Raises:
        ApiError: 400 when it is no number.
    """
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise failures.bad_request(f'resourceVersion: Invalid value: "{text}": must be an unsigned integer')
    return int(text)


def selector(kind: Kind[Any], labels: str, fields: str) -> Selector | None:
    """Both selectors as one function; None when everything is selected.

    Raises:
        ApiError: 400 for a syntax error or an unknown field.
    """
    by_label = parse_label_selector(labels)
    if isinstance(kind, CustomKind):
        by_field = custom_selector(fields, kind)
    else:
        by_field = parse_field_selector(fields, kind.resource)
    if by_label is None:
        return by_field
    if by_field is None:
        return lambda entry: by_label(entry.labels)
    return lambda entry: by_field(entry) and by_label(entry.labels)


def candidates(context: Context, kind: Kind[Any], namespace: str | None, fields: str) -> Sequence[StoredEntry]:
    """Committed objects by namespace and name, among which those are that match a field selector."""
    name = selected_name(fields)
    if name is not None and (namespace or not kind.namespaced):
        one = context.store.get(context.key(kind, namespace, name))
        return (one,) if one else ()
    return context.store.scan(kind.resource, namespace if kind.namespaced else None)


async def matching(
    context: Context, kind: Kind[Any], found: Sequence[StoredEntry], labels: str, fields: str
) -> Sequence[StoredEntry]:
    """Those of ``found`` that both selectors select."""
    matches = selector(kind, labels, fields)
    if matches is None:
        return found
    if fields:
        await context.conversions.know(kind, data_of(found))
    return await context.sieve.select(found, matches)


async def list_page(
    context: Context,
    snapshots: Snapshots,
    kind: Kind[Any],
    namespace: str | None,
    *,
    labels: str,
    fields: str,
    limit: int,
    continue_token: str,
    resource_version: str,
    exact: bool = False,
) -> Page:
    """One page; see ``ObjectService.list``."""
    stored = context.stored_kind(kind)
    query = "\0".join((stored.resource, namespace or "", labels, fields))
    if continue_token:
        token = _read_token(continue_token, query)
        kept = snapshots.find(query, token.rv)
        if kept is None:
            raise failures.continue_expired()
        entries, last = kept
        revision, start = token.rv, _start(entries, token.start)
    else:
        requested, start = parse_revision(resource_version), 0
        await _reach(context, requested)
        if exact and requested:
            scanned, revision = at_revision(context.store, stored.resource, requested), requested
            scanned = within(scanned, namespace if stored.namespaced else None)
        else:
            scanned, revision = candidates(context, stored, namespace, fields), context.store.revision
        last = _place(scanned[-1]) if scanned else None
        entries = await matching(context, stored, scanned, labels, fields)
    end = min(len(entries), start + limit) if limit > 0 else len(entries)
    await context.conversions.know(stored, data_of(entries[start:end]))
    shown = entries if (start, end) == (0, len(entries)) else entries[start:end]
    items = Shown(shown, stored, kind)
    if end < len(entries):
        following = "/".join(_place(entries[end]))
    elif 0 < limit == len(items) and _place(entries[end - 1]) != last:
        # As on a real server: a page that is full ends the search, and what comes behind was not looked at.
        following = "/".join(_place(entries[end - 1])) + "\0"
    else:
        return Page(items, revision)
    snapshots.keep(query, revision, entries, last)
    token = _Token(META_API_VERSION, revision, following, query)
    text = base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")
    return Page(items, revision, text, None if labels or fields else len(entries) - end)


def _place(entry: StoredEntry) -> Place:
    return entry.namespace, entry.name


def _start(entries: Sequence[StoredEntry], wanted: str) -> int:
    namespace, _, name = wanted.partition("/")
    return bisect.bisect_left(entries, (namespace, name), key=lambda entry: entry.key[1:])


def _read_token(text: str, query: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (*UNREADABLE, binascii.Error, ValueError) as error:
        raise failures.bad_request(f"invalid continue token: {error}") from None
    if token.query != query:
        raise failures.bad_request("invalid continue token: it belongs to another list")
    return token


async def _reach(context: Context, revision: int | None) -> None:
    """A list that is "not older than" waits for that revision a while, as a real server does."""
    store = context.store
    if revision is None or revision <= store.revision:
        return
    deadline = asyncio.get_running_loop().time() + _WAIT_FOR_REVISION
    while store.revision < revision:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0 or store.closed:
            raise failures.too_large_version(revision, store.revision)
        await asyncio.wait({store.any_change()}, timeout=left)


# Watch: committed events in order, selectors applied, bookmarks in between.
#
# A stream holds a position in the shared history and nothing else; a reader that is slower than the history is kept
# gets ``Gone`` and lists again.

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
        return StoreEvent(kind, encoding.as_version(entry.data, self.stored, self.kind), entry.revision)

    def _bookmark(self, revision: int, annotations: dict[str, str] | None = None) -> StoreEvent:
        return StoreEvent("BOOKMARK", encoding.bookmark(self.kind, revision, annotations), revision)


def _pause(now: float, end: float | None, marked: float | None) -> float | None:
    """Seconds until the stream ends or is marked."""
    waits = []
    if end is not None:
        waits.append(end - now)
    if marked is not None:
        waits.append(marked + BOOKMARK_SECONDS - now)
    return max(min(waits), _SHORTEST_PAUSE) if waits else None
