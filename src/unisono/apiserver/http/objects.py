"""The verbs on objects: each reads its parameters, asks the service, and writes the answer in the asked form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.api.yaml import dump
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.failures import bad_request
from unisono.apiserver.flow_control import aside, weigh
from unisono.apiserver.http import protobuf
from unisono.apiserver.http.exchange import JSON, Body, Exchange, content_type, patch_type, read_object, read_patch
from unisono.apiserver.http.openapi import is_core
from unisono.apiserver.http.protobuf import MAGIC, write_bytes, write_head
from unisono.apiserver.http.query import (
    ResourcePath,
    delete_options,
    exact_version,
    include_object,
    integer,
    write_options,
)
from unisono.apiserver.http.status import PROTOBUF, Form, success
from unisono.apiserver.nodes import RemotePods
from unisono.apiserver.tables.render import IncludeObject, TableWriter, partial_metadata
from unisono.apiserver.types import DeleteOptions, Page, PatchType, WriteOptions, Written
from unisono.errors import ApiError, NotFound

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService

# Lists as they are sent: in pieces, each encoded when the client has taken the ones before.
#
# A page holds the stored objects and not copies of them, so a list that is not read costs a piece and no more, however
# long it is. What changes meanwhile is not seen: entries of the store are replaced, never changed.

# Bytes of objects that are encoded at a time.
_PIECE = 64 * 1024
# Protobuf up to this size is encoded once and kept; longer lists are encoded twice, because sizes go first.
_KEPT = 128 * 1024

Document = dict[str, Any]
Render = Callable[[Sequence[bytes]], list[Any]]


def list_pieces(
    kind: Kind[Any], page: Page, form: Form, include: IncludeObject, clock: Callable[[], float]
) -> AsyncIterator[bytes]:
    """The encoded list, in pieces.

    Args:
        kind: what is listed, as it was asked for.
        page: the objects.
        form: how the client reads them.
        include: what the rows of a table carry.
        clock: Unix seconds, for the ages in tables.
    """
    if not form.transform and form.media == "json":
        return _joined(kind, page)
    key, head, render = "items", _head(kind, page), _whole(kind)
    if form.transform == "Table":
        writer, now = TableWriter(kind, form.version, include), clock()
        key, head = "rows", writer.table([], _metadata(page), now)
        render = _rows(writer, now)
    elif form.transform:
        api_version = f"meta.k8s.io/{form.version}"
        head = {"kind": "PartialObjectMetadataList", "apiVersion": api_version, "metadata": _metadata(page)}
        render = _partial(form.version)
    if form.media == "protobuf":
        return _protobuf(head, page, render)
    head.pop(key, None)
    return (_yaml if form.media == "yaml" else _json)(head, key, page, render)


def _head(kind: Kind[Any], page: Page) -> Document:
    name = kind.list_kind if isinstance(kind, CustomKind) else f"{kind.kind}List"
    return {"kind": name, "apiVersion": kind.api_version, "metadata": _metadata(page)}


def _metadata(page: Page) -> Document:
    metadata: Document = {"resourceVersion": str(page.resource_version)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _portions(items: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Objects of about a piece's size, or one that is larger."""
    portion: list[bytes] = []
    size = 0
    for item in items:
        if portion and size + len(item) > _PIECE:
            yield portion
            portion, size = [], 0
        portion.append(item)
        size += len(item)
    if portion:
        yield portion


async def _joined(kind: Kind[Any], page: Page) -> AsyncIterator[bytes]:
    """Stored objects are JSON already: nothing is decoded."""
    # The list says what its items are; they begin with it, as the encoder writes them.
    start = f'{{"apiVersion":"{kind.api_version}","kind":"{kind.kind}",'.encode() if is_core(kind) else b""
    lead = msgspec.json.encode(_head(kind, page))[:-1] + b',"items":['
    for portion in _portions(page.items):
        shown: Iterable[bytes] = portion
        if start:
            shown = (b"{" + item.removeprefix(start) if item.startswith(start) else item for item in portion)
        yield lead + b",".join(shown)
        lead = b","
    yield (b"" if lead == b"," else lead) + b"]}\n"


async def _rendered(page: Page, render: Render) -> AsyncIterator[list[Any]]:
    """Documents of each portion, made in a thread where there is more than one, so that others are served."""
    portions = _portions(page.items)
    first, second = next(portions, []), next(portions, None)
    if second is None:
        yield render(first)
        return
    for portion in chain((first, second), portions):
        yield await asyncio.to_thread(render, portion)


async def _json(head: Document, key: str, page: Page, render: Render) -> AsyncIterator[bytes]:
    lead = msgspec.json.encode(head)[:-1] + f',"{key}":['.encode()
    async for values in _rendered(page, render):
        yield lead + msgspec.json.encode(values)[1:-1]
        lead = b","
    yield b"]}"


async def _yaml(head: Document, key: str, page: Page, render: Render) -> AsyncIterator[bytes]:
    yield _dumped(head)
    if not page.items:
        yield _dumped({key: []})
        return
    yield f"{key}:\n".encode()
    for portion in _portions(page.items):
        yield await asyncio.to_thread(_dump_rendered, render, portion)


def _dump_rendered(render: Render, portion: Sequence[bytes]) -> bytes:
    return _dumped(render(portion))


def _dumped(value: Any) -> bytes:
    return dump(value).encode()


async def _protobuf(head: Document, page: Page, render: Render) -> AsyncIterator[bytes]:
    item = str(head["kind"]).removesuffix("List")

    def encode(portion: list[bytes]) -> bytes:
        return protobuf.encode_items(head["apiVersion"], item, render(portion))

    size, kept = 0, []
    for portion in _portions(page.items):
        encoded = await asyncio.to_thread(encode, portion)
        size += len(encoded)
        if size <= _KEPT:
            kept.append(encoded)
    metadata = protobuf.list_metadata(head["metadata"])
    named = write_bytes(1, head["apiVersion"].encode()) + write_bytes(2, head["kind"].encode())
    lead = MAGIC + write_bytes(1, named) + write_head(2, len(metadata) + size) + metadata
    if size <= _KEPT:
        yield lead + b"".join(kept)
        return
    yield lead
    kept.clear()
    for portion in _portions(page.items):
        yield await asyncio.to_thread(encode, portion)


def _whole(kind: Kind[Any]) -> Render:
    strip = is_core(kind)

    def render(portion: Sequence[bytes]) -> list[Any]:
        values = [msgspec.json.decode(item) for item in portion]
        for value in values if strip else ():
            value.pop("apiVersion", None)
            value.pop("kind", None)
        return values

    return render


def _partial(version: str) -> Render:
    return lambda portion: [partial_metadata(msgspec.json.decode(item), version) for item in portion]


def _rows(writer: TableWriter, now: float) -> Render:
    return lambda portion: writer.rows([msgspec.json.decode(item) for item in portion], now)


Clock = Callable[[], float]
_MEDIA_TYPES = {"json": JSON, "yaml": "application/yaml", "protobuf": PROTOBUF}


class ObjectHandlers:
    """Handlers of everything that reads or writes whole objects.

    Args:
        service: holds the objects and their rules.
        clock: Unix seconds, for the ages in tables.
        remote: pods that run elsewhere and can be read here; None where there are none.
    """

    def __init__(self, service: ObjectService, clock: Clock, remote: RemotePods | None = None) -> None:
        self._service = service
        self._clock = clock
        self._remote = remote

    async def get(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """GET of one object; ``/status`` reads the same object."""
        try:
            data = await self._service.get(kind, path.namespace, str(path.name), path.subresource)
        except NotFound:
            if kind is not PODS or self._remote is None:
                raise
            elsewhere = await self._remote.find(str(path.namespace), str(path.name))
            if elsewhere is None:
                raise
            data = elsewhere
        return await self._object(exchange, kind, data)

    async def list(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """GET of a collection."""
        query = exchange.query
        page = await self._service.list(
            kind,
            path.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
            limit=max(0, integer(query, "limit") or 0),
            continue_token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            exact=exact_version(query),
        )
        if kind is PODS and self._remote is not None and exchange.form.transform == "Table" and not page.continue_token:
            # People see pods that run elsewhere; programs that keep a list up to date by a watch would not.
            elsewhere, silent = await self._remote.listed(path.namespace, query)
            page = replace(page, items=[*page.items, *elsewhere])
            exchange.notes = (*exchange.notes, *silent)
        return await self._page(exchange, kind, page)

    async def create(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """POST to a collection."""
        body = await self._read(exchange, kind)
        options = self._options(exchange, "Create")
        _refuse_duplicates(kind, body, options)
        written = await self._service.create(kind, path.namespace, body.value, options)
        return await self._object(exchange, kind, written.object, 201, _warnings(written, body, options))

    async def update(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """PUT of one object or of its status."""
        body = await self._read(exchange, kind)
        options = self._options(exchange, "Update")
        _refuse_duplicates(kind, body, options)
        written = await self._service.update(
            kind, path.namespace, str(path.name), body.value, options, path.subresource
        )
        return await self._written(exchange, kind, written, _warnings(written, body, options))

    async def patch(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """PATCH of one object or of its status; the content type says which kind of patch."""
        patch_kind = patch_type(content_type(exchange.request))
        body = await read_patch(await exchange.body(), patch_kind)
        if not isinstance(body.value, list if patch_kind == "json" else dict):
            form = "a list of operations" if patch_kind == "json" else "an object"
            raise bad_request(f"the body of the {patch_kind} patch must be {form}")
        options = self._options(exchange, "Patch", patch_kind)
        _refuse_duplicates(kind, body, options)
        written = await self._service.patch(
            kind, path.namespace, str(path.name), body.value, patch_kind, options, path.subresource
        )
        return await self._written(exchange, kind, written, _warnings(written, body, options))

    async def delete(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """DELETE of one object: the answer is the object when it stays for a while, else a Status with its uid."""
        options = self._delete_options(exchange, await self._delete_body(exchange))
        deleted = await self._service.delete(kind, path.namespace, str(path.name), options)
        if deleted.object is not None:
            return await self._object(exchange, kind, deleted.object)
        return await exchange.document(success(deleted.details))

    async def delete_collection(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """DELETE of a collection; answers what was deleted."""
        query = exchange.query
        options = self._delete_options(exchange, await self._delete_body(exchange))
        page = await self._service.delete_collection(
            kind,
            path.namespace,
            options,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
        )
        return await self._page(exchange, kind, page)

    async def bind(self, exchange: Exchange, path: ResourcePath) -> web.StreamResponse:
        """POST of a pod's binding."""
        body = await read_object(exchange.request, await exchange.body(), "Binding")
        options = self._options(exchange, "Create")
        warnings = await self._service.bind(str(path.namespace), str(path.name), body.value, options)
        return await exchange.document(success(code=201), 201, warnings)

    async def evict(self, exchange: Exchange, path: ResourcePath) -> web.StreamResponse:
        """POST of a pod's eviction."""
        body = await read_object(exchange.request, await exchange.body(), "Eviction")
        options = self._options(exchange, "Create")
        warnings = await self._service.evict(str(path.namespace), str(path.name), body.value, options)
        return await exchange.document(success(code=201), 201, warnings)

    async def _read(self, exchange: Exchange, kind: Kind[Any]) -> Body:
        body = await read_object(exchange.request, await exchange.body(), kind.kind)
        if is_core(kind):
            # Typed clients leave out what the URL says anyway; for custom kinds Kubernetes insists on it.
            body.value["apiVersion"] = body.value.get("apiVersion") or kind.api_version
            body.value["kind"] = body.value.get("kind") or kind.kind
        return body

    async def _delete_body(self, exchange: Exchange) -> dict[str, Any] | None:
        data = await exchange.body()
        if not data.strip():
            return None
        value: dict[str, Any] = (await read_object(exchange.request, data, "DeleteOptions")).value
        return value

    @staticmethod
    def _delete_options(exchange: Exchange, body: dict[str, Any] | None) -> DeleteOptions:
        options = delete_options(exchange.query, body, exchange.user.name)
        return replace(options, groups=exchange.user.groups)

    def _options(self, exchange: Exchange, operation: Any, patch: PatchType | None = None) -> WriteOptions:
        agent = exchange.request.headers.get("User-Agent", "")
        options = write_options(exchange.query, exchange.user.name, agent, operation, patch)
        # Components create objects by the thousand; recording their owner costs half as much again (decision 5).
        return replace(options, groups=exchange.user.groups, track_fields=not exchange.own)

    async def _written(
        self, exchange: Exchange, kind: Kind[Any], written: Written, warnings: Sequence[str]
    ) -> web.StreamResponse:
        return await self._object(exchange, kind, written.object, 201 if written.created else 200, warnings)

    async def _object(
        self, exchange: Exchange, kind: Kind[Any], encoded: bytes, status: int = 200, warnings: Sequence[str] = ()
    ) -> web.StreamResponse:
        form = exchange.form
        if not form.transform and form.media == "json":
            return await exchange.send(status, encoded, warnings)
        weigh(len(encoded))
        include = include_object(exchange.query) if form.transform == "Table" else None
        value = await aside(_transformed, kind, form, include, encoded, self._clock())
        return await exchange.document(value, status, warnings)

    async def _page(self, exchange: Exchange, kind: Kind[Any], page: Page) -> web.StreamResponse:
        pieces = list_pieces(kind, page, exchange.form, include_object(exchange.query), self._clock)
        return await exchange.send_pieces(pieces, _MEDIA_TYPES[exchange.form.media])


def _transformed(kind: Kind[Any], form: Form, include: IncludeObject | None, encoded: bytes, now: float) -> Any:
    """An object in the form that the client asked for, as JSON values; ``include`` says what rows of tables carry."""
    value = msgspec.json.decode(encoded)
    if include is not None:
        metadata = {"resourceVersion": value["metadata"].get("resourceVersion", "")}
        return TableWriter(kind, form.version, include).table([value], metadata, now)
    return partial_metadata(value, form.version) if form.transform else value


def _refuse_duplicates(kind: Kind[Any], body: Body, options: WriteOptions) -> None:
    if body.duplicates and options.field_validation == "Strict":
        details = ", ".join(f'duplicate field "{path}"' for path in body.duplicates)
        raise ApiError(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {details}",
            code=400,
            reason="BadRequest",
        )


def _warnings(written: Written, body: Body, options: WriteOptions) -> list[str]:
    if options.field_validation == "Ignore":
        return written.warnings
    return [*(f'duplicate field "{path}"' for path in body.duplicates), *written.warnings]
