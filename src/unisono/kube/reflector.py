"""Keeps a sink equal to what the API server holds: one list, then a watch, again and again.

::

    list ──► sink.replace ──► watch from that resourceVersion ──► sink.apply, event by event
      ▲                          │ clean end: watch again from the last resourceVersion
      └── Gone ◄─────────────────┘ error: the same, after a back-off

Where client and server can, the list is the beginning of the watch: the server then sends object by object from its
cache and need not hold pages of encoded objects in memory. A server that refuses is asked for lists from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from unisono.api.base import Object
from unisono.api.keys import INITIAL_EVENTS_END
from unisono.api.kind import Kind
from unisono.errors import ApiError, Gone, Unavailable
from unisono.kube.client import Client, EventType, WatchEvent
from unisono.kube.clock import SYSTEM_CLOCK, Clock, Timer
from unisono.kube.pace import Backoff
from unisono.lazy_logs import LazyLogger

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)

_log = LazyLogger(__name__)

# A watch that ends sooner than this without an event counts as a failure: a server that closes every stream
# at once must not be asked in a tight loop.
_SHORT_WATCH_SECONDS = 1.0
# API servers send a bookmark about every minute; one that did and is silent for so long is not there any more, even
# if the connection still looks open.
_STALL_SECONDS = 180.0


class Sink(Protocol[T_contra]):
    """What a reflector feeds; all methods are synchronous and must not raise.

    An object that could not be decoded comes with what of it could be read, and with the reason.
    """

    def replace(self, objects: Sequence[T_contra], unread: Sequence[tuple[T_contra, str]] = ()) -> None:
        """The complete set of objects; whatever is in neither of the two is gone."""
        ...

    def refuse(self, obj: T_contra, why: str) -> None:
        """An object was added or changed, and could not be decoded."""
        ...

    def apply(self, event_type: EventType, obj: T_contra) -> None:
        """One change; DELETED carries the last state."""
        ...


@dataclass(frozen=True, slots=True)
class ReflectorStatistics:
    """How the stream of one kind fares.

    Attributes:
        lists: complete lists read.
        watches: watches opened.
        events: changes received.
        failures: failures in a row, 0 when the stream is healthy.
        silent_seconds: time since the server was last heard of; the staleness alarm reads it.
        last_error: sentence of the last failure, empty after a success.
    """

    lists: int
    watches: int
    events: int
    failures: int
    silent_seconds: float
    last_error: str


class Reflector(Generic[T]):
    """List and watch one kind into a sink for as long as ``run`` is awaited."""

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        sink: Sink[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        clock: Clock = SYSTEM_CLOCK,
        backoff: Backoff | None = None,
        watch_seconds: float = 300.0,
        absent_seconds: float | None = None,
        resume_from: str = "",
        most: int | None = None,
    ) -> None:
        """``watch_seconds`` is the shortest life of a watch. With ``absent_seconds`` a server that does not know the
        kind, or does not let us read it, counts as one that holds no objects of it, and is asked again after so long;
        what it told of before stays.
        ``resume_from`` is the resourceVersion up to which the sink knows everything from before: a list comes only
        where the server does not know it any more. A watch that begins with more than ``most`` objects is given up.
        """
        self.kind = kind
        self.synced = asyncio.Event()
        self._client, self._sink, self._clock = client, sink, clock
        self._namespace, self._labels, self._fields = namespace, label_selector, field_selector
        self._backoff = backoff or Backoff(base=0.2, cap=30.0)
        self._rng = self._backoff.rng
        self._watch_seconds = watch_seconds
        self._absent_seconds, self._most = absent_seconds, most
        self._resource_version: str | None = resume_from or None
        if resume_from:
            self.synced.set()
        self._heard_at = clock.monotonic()
        self._lists = self._watches = self._events = self._failures = self._expiries = 0
        self._last_error = ""
        self._absence = 0
        self._guard: _Guard | None = None
        self._can_stream: bool = getattr(client, "streams_lists", False)
        self._streams_lists = self._can_stream
        # Objects of a list that comes as the beginning of a watch; None while none comes.
        self._coming: dict[str, WatchEvent[T]] | None = None

    @property
    def resource_version(self) -> str:
        """Up to where the sink knows everything; while a list is handed over, that of the list."""
        return self._resource_version or ""

    @property
    def arriving(self) -> int:
        """Objects of the list that is being read, as far as they came one by one; 0 while none is."""
        return len(self._coming or ())

    @property
    def is_absent(self) -> bool:
        """Whether the server does not know the kind, or does not let us read it."""
        return bool(self._absence)

    @property
    def is_forbidden(self) -> bool:
        """Whether the server does not let us read the kind, which it may know."""
        return self._absence == 403

    async def run(self) -> None:
        """Feed the sink until cancelled; every failure is retried with a back-off."""
        while True:
            try:
                if self._resource_version is None and self._streams_lists:
                    await self._watch_from_nothing()
                    continue
                if self._resource_version is None:
                    await self._list()
                if self._resource_version is None:
                    continue
                await self._watch(self._resource_version or "")
            except Gone as error:
                self._resource_version = None
                await self._pause(error)
            except (ApiError, OSError, TimeoutError) as error:
                if self._absent_seconds is not None and _is_absent(error):
                    self._resource_version = None
                await self._pause(error)
            except Exception as error:
                # Neither an undecodable object nor a broken sink may end the stream: start over from a list.
                _log.exception("watch.broken", resource=self.kind.resource)
                self._resource_version = None
                await self._pause(error)

    def statistics(self) -> ReflectorStatistics:
        """How the stream fares now."""
        return ReflectorStatistics(
            lists=self._lists,
            watches=self._watches,
            events=self._events,
            failures=self._failures,
            silent_seconds=max(0.0, self._clock.monotonic() - self._heard_at),
            last_error=self._last_error,
        )

    async def _list(self) -> None:
        try:
            listing = await self._client.list(
                self.kind, self._namespace, label_selector=self._labels, field_selector=self._fields
            )
        except ApiError as error:
            if self._absent_seconds is None or not _is_absent(error):
                raise
            if not self._lists:
                self._sink.replace([])  # what was read before is not gone because it may not be read any more
            self._heard()
            self._note_absence(error)
            self.synced.set()
            await self._clock.sleep(self._absent_seconds)
            return
        self._replace(listing.items, listing.resource_version, listing.unread)
        self._streams_lists = self._can_stream

    def _replace(self, objects: Sequence[T], resource_version: str, unread: Sequence[tuple[T, str]]) -> None:
        self._lists += 1
        self._absence = 0
        self._resource_version = resource_version
        self._sink.replace(objects, unread)
        self._heard()
        self.synced.set()

    async def _watch_from_nothing(self) -> None:
        """A watch that begins with all objects; whatever goes wrong before they are there is left to a list."""
        self._coming = {}
        try:
            await self._watch("")
        except ApiError as error:
            if self._coming is None:
                raise
            self._give_up_streaming(error)
            if isinstance(error, Unavailable):
                raise
        finally:
            if self._coming is not None:
                self._resource_version = None
            self._coming = None

    def _give_up_streaming(self, error: ApiError) -> None:
        """Once, where the connection broke; else for the life of this process."""
        self._streams_lists = False
        if not isinstance(error, (Unavailable, Gone)):
            self._can_stream = False
        _log.debug("watch.lists_instead", resource=self.kind.resource, error=str(error))

    async def _watch(self, resource_version: str) -> None:
        self._watches += 1
        started, seen = self._clock.monotonic(), self._events
        stream = self._client.watch(
            self.kind,
            self._namespace,
            resource_version=resource_version,
            label_selector=self._labels,
            field_selector=self._fields,
            timeout_seconds=self._watch_seconds * (1.0 + self._rng.random()),
        )
        reader = asyncio.ensure_future(self._read(stream))
        guard = _Guard(self._clock, lambda: self._heard_at, reader)
        try:
            await self._read_guarded(reader, guard)
        finally:
            guard.stop()
            await _close(stream)
        if self._coming is not None:
            raise Unavailable(f"the watch on {self.kind.resource} ended before all objects were there")
        if self._events == seen and self._clock.monotonic() - started < _SHORT_WATCH_SECONDS:
            raise Unavailable(f"the watch on {self.kind.resource} ended at once")
        self._expiries = 0
        self._heard()

    async def _read(self, stream: AsyncIterator[WatchEvent[T]]) -> None:
        async for event in stream:
            self._take(event)

    async def _read_guarded(self, reader: asyncio.Future[None], guard: _Guard) -> None:
        self._guard = guard
        if self._coming is not None:
            # A server that does not know what it is asked for must not be awaited for ever.
            guard.start()
        try:
            await reader
        except asyncio.CancelledError:
            if not guard.stalled:
                raise
            if self._coming is not None:
                self._can_stream = False
            raise Unavailable(f"the watch on {self.kind.resource} fell silent") from None

    def _take(self, event: WatchEvent[T]) -> None:
        if self._coming is not None:
            self._take_early(self._coming, event)
            return
        self._resource_version = event.object.metadata.resource_version or self._resource_version
        self._expiries = 0
        self._heard()
        if event.type == "BOOKMARK":
            if self._guard is not None:
                self._guard.start()
        else:
            self._events += 1
            if not event.object.metadata.name:
                return  # nothing of it can be read, not even what it is called; the client has logged it
            if event.error and event.type != "DELETED":
                self._sink.refuse(event.object, event.error)
            else:
                self._sink.apply(event.type, event.object)

    def _take_early(self, coming: dict[str, WatchEvent[T]], event: WatchEvent[T]) -> None:
        """One object of the list that a watch begins with; a marked bookmark is its end."""
        self._heard()
        meta = event.object.metadata
        if event.type == "BOOKMARK":
            if (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                self._coming = None
                objects = [one.object for one in coming.values() if not one.error]
                unread = [(one.object, one.error) for one in coming.values() if one.error]
                self._replace(objects, meta.resource_version or "", unread)
                if self._guard is not None:
                    self._guard.start()
        elif event.type == "DELETED":
            coming.pop(event.object.key, None)
        else:
            coming[event.object.key] = event
            if self._most is not None and len(coming) > self._most:
                raise Unavailable(f"the watch on {self.kind.resource} begins with more than {self._most} objects")

    def _heard(self) -> None:
        self._heard_at = self._clock.monotonic()
        if self._failures:
            _log.info("watch.recovered", resource=self.kind.resource, failures=self._failures)
        self._failures, self._last_error = 0, ""

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        delay = self._backoff.delay(self._failures)
        if isinstance(error, Unavailable) and error.retry_after:
            delay = max(delay, min(error.retry_after, self._backoff.cap))
        if isinstance(error, Gone):
            # A list that succeeded does not count: a server whose every watch expires must not be listed in a loop.
            self._expiries += 1
            delay = self._backoff.delay(self._expiries - 1) if self._expiries > 1 else 0.0
        elif str(error) != self._last_error:
            _log.warning("watch.failed", resource=self.kind.resource, error=str(error), retry_in=round(delay, 3))
        self._last_error = str(error)
        await self._clock.sleep(delay)

    def _note_absence(self, error: ApiError) -> None:
        if self._absence != error.code:
            self._absence = error.code
            # Most clusters lack some kinds; one that we may not read is a decision of the cluster's administrators.
            tell = _log.debug if error.code == 404 else _log.info
            tell("watch.absent", resource=self.kind.resource, code=error.code, error=str(error))


class _Guard:
    """Ends a reader that hears nothing for too long; on duty only once the server has shown that it sends bookmarks."""

    def __init__(self, clock: Clock, heard_at: Callable[[], float], reader: asyncio.Future[None]) -> None:
        self._clock, self._heard_at, self._reader = clock, heard_at, reader
        self._timer: Timer | None = None
        self.stalled = False

    def start(self) -> None:
        """Go on duty; calling it again changes nothing."""
        if self._timer is None:
            self._timer = self._clock.call_later(_STALL_SECONDS, self._look)

    def stop(self) -> None:
        """Off duty."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        silent = self._clock.monotonic() - self._heard_at()
        if silent >= _STALL_SECONDS:
            self.stalled = True
            self._reader.cancel()
        else:
            self._timer = self._clock.call_later(_STALL_SECONDS - silent, self._look)


def _is_absent(error: Exception) -> bool:
    """The server does not know the kind, or does not let us read it."""
    return isinstance(error, ApiError) and error.code in (403, 404)


async def _close(stream: AsyncIterator[WatchEvent[T]]) -> None:
    """Release the connection of a stream that was left early."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
