"""Watches: a stream of JSON documents, one per line, in the form in which the client reads objects."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import msgspec
from aiohttp import web

from unisono.api.kind import Kind
from unisono.apiserver.http import protobuf
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.protobuf import write_bytes
from unisono.apiserver.http.query import Query, ResourcePath, check_watch, flag, include_object, watch_seconds
from unisono.apiserver.http.status import PROTOBUF, encode_failure
from unisono.apiserver.tables.render import TableWriter, partial_metadata
from unisono.apiserver.types import StoreEvent
from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService

# Events of watches as they are sent, encoded once for all watchers who see an event in the same form.

# Watchers hear of an event at about the same time: what the newest ones share is all that has to be kept.
_MOST_BYTES = 4 * 1024 * 1024
# What a line costs besides its bytes and those of the object that it is found by.
_OVERHEAD = 300


class SharedLines:
    """The newest lines by event and form; the oldest go when there are too many bytes.

    Args:
        most_bytes: how much may be kept.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._lines: dict[Hashable, bytes] = {}
        self._owners: dict[Hashable, object] = {}
        self._bytes, self._most = 0, most_bytes

    def line(self, event: StoreEvent, form: Hashable, kind: object, encode: Callable[[StoreEvent], bytes]) -> bytes:
        """The line of ``event``.

        Args:
            event: found by what it holds, so that it is right for every conversion.
            form: how the watcher wants to read it; equal forms of one kind must give equal lines.
            kind: as it was asked for; held, so that no other one takes its identity.
            encode: makes the line for the first watcher.
        """
        key = (event.type, event.resource_version, event.object, id(kind), form)
        encoded = self._lines.get(key)
        if encoded is None:
            encoded = encode(event)
            self._keep(key, kind, encoded, len(event.object))
        return encoded

    def _keep(self, key: tuple[str, int, bytes, int, Hashable], kind: object, line: bytes, source: int) -> None:
        size = len(line) + source + _OVERHEAD
        if size > self._most:
            return
        self._lines[key], self._owners[key] = line, kind
        self._bytes += size
        while self._bytes > self._most:
            oldest = next(iter(self._lines))
            assert isinstance(oldest, tuple)
            self._bytes -= len(self._lines.pop(oldest)) + len(oldest[2]) + _OVERHEAD
            del self._owners[oldest]


Encode = Callable[[StoreEvent], tuple[bytes, ...]]
# Larger objects are sent as they are stored, without a copy for each watcher that does not read.
_WITHOUT_COPY = 32 * 1024
# Bytes that count as one event more when turns are given.
_PART = 32 * 1024


class WatchHandler:
    """Answers ``watch=true``.

    Args:
        service: gives the events; it drops a watcher that falls too far behind.
        clock: Unix seconds, for the ages in tables.
    """

    def __init__(self, service: ObjectService, clock: Callable[[], float]) -> None:
        self._service = service
        self._clock = clock
        self._lines = SharedLines()

    async def watch(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """Stream events until the time-out, the client's end or the server's.

        A selector that cannot be read is a plain error; a resourceVersion that is too old arrives as an ERROR event
        of a successful answer, which is where clients look for it.
        """
        events = self._open(exchange.query, kind, path)
        encode = self._encoder(exchange, kind)
        binary = exchange.form.media == "protobuf"
        response = await exchange.stream(f"{PROTOBUF};stream=watch" if binary else "application/json")
        try:
            async with aclosing(cast("Any", events)):
                async for event in events:
                    # A thousand watchers of one user must not keep the requests of others waiting.
                    if not exchange.own:
                        await exchange.take(self._service.shares.sent, 1 + len(event.object) // _PART)
                    for piece in encode(event):
                        await exchange.write(response, piece)
        except ApiError as error:
            line = protobuf_frame if binary else frame
            await exchange.write(response, line("ERROR", encode_failure(error)))
        return response

    def _open(self, query: Query, kind: Kind[Any], path: ResourcePath) -> AsyncIterator[StoreEvent]:
        check_watch(query)
        fields = query.get("fieldSelector", "")
        if path.name:
            fields = f"{fields},metadata.name={path.name}" if fields else f"metadata.name={path.name}"
        return self._service.watch(
            kind,
            path.namespace,
            resource_version=query.get("resourceVersion", ""),
            label_selector=query.get("labelSelector", ""),
            field_selector=fields,
            timeout_seconds=watch_seconds(query),
            bookmarks=flag(query, "allowWatchBookmarks"),
            send_initial_events=flag(query, "sendInitialEvents"),
        )

    def _encoder(self, exchange: Exchange, kind: Kind[Any]) -> Encode:
        """Makes the lines of one watch; those that others are told as well are shared with them."""
        form, lines = exchange.form, self._lines
        line = protobuf_frame if form.media == "protobuf" else frame
        if form.transform == "Table":
            return self._table_encoder(exchange, kind, line)
        if form.transform:

            def partial(event: StoreEvent) -> bytes:
                shown = partial_metadata(msgspec.json.decode(event.object), form.version)
                return line(event.type, msgspec.json.encode(shown))

            return lambda event: (lines.line(event, form, kind, partial),)

        def whole(event: StoreEvent) -> bytes:
            return line(event.type, event.object)

        def pieces(event: StoreEvent) -> tuple[bytes, ...]:
            if form.media == "json" and len(event.object) > _WITHOUT_COPY:
                lead, _, end = frame(event.type, b"\0").partition(b"\0")
                return lead, event.object, end
            return (lines.line(event, form, kind, whole),)

        return pieces

    def _table_encoder(self, exchange: Exchange, kind: Kind[Any], line: Callable[[str, bytes], bytes]) -> Encode:
        form, include = exchange.form, include_object(exchange.query)
        writer = TableWriter(kind, form.version, include)
        first = True

        def table(event: StoreEvent, now: float) -> bytes:
            metadata = {"resourceVersion": str(event.resource_version)}
            rows = [] if event.type == "BOOKMARK" else [msgspec.json.decode(event.object)]
            return line(event.type, msgspec.json.encode(writer.table(rows, metadata, now, definitions=first)))

        def encode(event: StoreEvent) -> tuple[bytes, ...]:
            nonlocal first
            # Ages are told in whole seconds, so that all who hear of an event within one see the same.
            now = math.floor(self._clock())
            # Only the first event of a watch names the columns; kubectl keeps them.
            encoded = self._lines.line(event, (form, include, first, now), kind, lambda event: table(event, now))
            first = False
            return (encoded,)

        return encode


def protobuf_frame(event_type: str, encoded: bytes) -> bytes:
    """One event of a watch in protobuf: its length in four bytes, then the event."""
    raw = write_bytes(1, protobuf.encode(msgspec.json.decode(encoded)))
    event = write_bytes(1, event_type.encode()) + write_bytes(2, raw)
    return len(event).to_bytes(4, "big") + event


def frame(event_type: str, encoded: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), encoded)
