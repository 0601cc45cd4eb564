"""The verbs on objects: each reads its parameters, asks the service, and writes the answer in the asked form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from unisono.api.kind import Kind
from unisono.api.kinds import PODS
from unisono.apiserver.flow_control.turns import aside, weigh
from unisono.apiserver.http.accept import PROTOBUF, Form
from unisono.apiserver.http.body import Body, content_type, patch_type, read_object, read_patch
from unisono.apiserver.http.exchange import JSON, Exchange
from unisono.apiserver.http.lists import list_pieces
from unisono.apiserver.http.openapi import is_core
from unisono.apiserver.http.query import (
    ResourcePath,
    delete_options,
    exact_version,
    include_object,
    integer,
    write_options,
)
from unisono.apiserver.http.status import bad_request, success
from unisono.apiserver.nodes import RemotePods
from unisono.apiserver.tables import IncludeObject, TableWriter, partial_metadata
from unisono.apiserver.types import DeleteOptions, Page, PatchType, WriteOptions, Written
from unisono.errors import ApiError, NotFound

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService

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
            found = await self._service.get(kind, path.namespace, str(path.name), path.subresource)
        except NotFound:
            if kind is not PODS or self._remote is None:
                raise
            elsewhere = await self._remote.find(str(path.namespace), str(path.name))
            if elsewhere is None:
                raise
            found = elsewhere
        return await self._object(exchange, kind, found)

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
        wanted = patch_type(content_type(exchange.request))
        body = await read_patch(await exchange.body(), wanted)
        if not isinstance(body.value, list if wanted == "json" else dict):
            form = "a list of operations" if wanted == "json" else "an object"
            raise bad_request(f"the body of the {wanted} patch must be {form}")
        options = self._options(exchange, "Patch", wanted)
        _refuse_duplicates(kind, body, options)
        written = await self._service.patch(
            kind, path.namespace, str(path.name), body.value, wanted, options, path.subresource
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
        self,
        exchange: Exchange,
        kind: Kind[Any],
        encoded: bytes,
        status: int = 200,
        warnings: Sequence[str] = (),
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
        found = ", ".join(f'duplicate field "{path}"' for path in body.duplicates)
        raise ApiError(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {found}",
            code=400,
            reason="BadRequest",
        )


def _warnings(written: Written, body: Body, options: WriteOptions) -> list[str]:
    if options.field_validation == "Ignore":
        return written.warnings
    return [*(f'duplicate field "{path}"' for path in body.duplicates), *written.warnings]
