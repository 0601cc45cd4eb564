"""Watches: a stream of JSON documents, one per line, in the form in which the client reads objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

import msgspec
from aiohttp import web

from unisono.api.kind import Kind
from unisono.apiserver.http import protobuf_encode
from unisono.apiserver.http.accept import PROTOBUF
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.path import ResourcePath
from unisono.apiserver.http.protobuf_wire import write_bytes
from unisono.apiserver.http.query import Query, check_watch, flag, include_object, watch_seconds
from unisono.apiserver.http.status import encode_failure
from unisono.apiserver.tables import TableWriter, partial_metadata
from unisono.apiserver.types import StoreEvent
from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.apiserver.service import ObjectService

Render = Callable[[StoreEvent], bytes]


class WatchHandler:
    """Answers ``watch=true``.

    Args:
        service: gives the events; it drops a watcher that falls too far behind.
        clock: Unix seconds, for the ages in tables.

    """

    def __init__(self, service: ObjectService, clock: Callable[[], float]) -> None:
        self._service = service
        self._clock = clock

    async def watch(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """Stream events until the time-out, the client's end or the server's.

        A selector that cannot be read is a plain error; a resourceVersion that is too old arrives as an ERROR event
        of a successful answer, which is where clients look for it.
        """
        events = self._open(exchange.query, kind, path)
        render = self._renderer(exchange, kind)
        binary = exchange.form.media == "protobuf"
        response = await exchange.stream(f"{PROTOBUF};stream=watch" if binary else "application/json")
        line = protobuf_frame if binary else frame
        try:
            async with aclosing(cast("Any", events)):
                async for event in events:
                    await exchange.write(response, line(event.type, render(event)))
        except ApiError as error:
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

    def _renderer(self, exchange: Exchange, kind: Kind[Any]) -> Render:
        form = exchange.form
        if form.transform == "Table":
            return self._table_renderer(exchange, kind)
        if form.transform:
            return lambda event: msgspec.json.encode(partial_metadata(msgspec.json.decode(event.object), form.version))
        return lambda event: event.object

    def _table_renderer(self, exchange: Exchange, kind: Kind[Any]) -> Render:
        writer = TableWriter(kind, exchange.form.version, include_object(exchange.query))
        first = True

        def render(event: StoreEvent) -> bytes:
            nonlocal first
            value = msgspec.json.decode(event.object)
            metadata = {"resourceVersion": str(event.resource_version)}
            rows = [] if event.type == "BOOKMARK" else [value]
            # Only the first event of a watch names the columns; kubectl keeps them.
            table = writer.table(rows, metadata, self._clock(), definitions=first)
            first = False
            return msgspec.json.encode(table)

        return render


def protobuf_frame(event_type: str, encoded: bytes) -> bytes:
    """One event of a watch in protobuf: its length in four bytes, then the event."""
    raw = write_bytes(1, protobuf_encode.encode(msgspec.json.decode(encoded)))
    event = write_bytes(1, event_type.encode()) + write_bytes(2, raw)
    return len(event).to_bytes(4, "big") + event


def frame(event_type: str, encoded: bytes) -> bytes:
    """One line of a watch."""
    return b'{"type":"%b","object":%b}\n' % (event_type.encode(), encoded)
