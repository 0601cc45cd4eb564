"""OpenAPI documents, v3 by group and version, and v2: what clients need to check, to patch and to explain."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from unisono.api.kind import Kind
from unisono.api.schema import is_kubernetes
from unisono.apiserver.catalog import Catalog, Served
from unisono.apiserver.custom.kinds import CustomKind, schema_for
from unisono.apiserver.flow_control.aside import aside
from unisono.apiserver.http import openapi_protobuf
from unisono.apiserver.http.openapi_v2 import v2_document

Document = dict[str, Any]
_TITLE = "Unisono"
_JSON = "application/json"
_MERGE_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_STATUS_REF = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status"}
_STATUS_SCHEMA: Document = {
    "type": "object",
    "description": "Status is a return value for calls that don't return other objects.",
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "status": {"type": "string"},
        "message": {"type": "string"},
        "reason": {"type": "string"},
        "code": {"type": "integer", "format": "int32"},
    },
}


class Encoded:
    """An encoded document.

    Attributes:
        body: its bytes.
        digest: their hash, for caches.

    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.digest = hashlib.sha256(body).hexdigest()[:32].upper()
        self._packed: asyncio.Task[bytes] | None = None

    async def packed(self) -> bytes:
        """The bytes as gzip; compressed once, however many ask."""
        if self._packed is None:
            self._packed = asyncio.create_task(asyncio.to_thread(gzip.compress, self.body))
        return await asyncio.shield(self._packed)


class OpenApi:
    """The documents of a catalog, made when first asked for and kept.

    Schemas take long to write, so that documents are made beside the event loop, each by the first who asks.
    """

    def __init__(self, catalog: Catalog, version: str) -> None:
        self._catalog = catalog
        self._version = version
        self._documents: dict[tuple[str, str], tuple[list[Served], asyncio.Task[Encoded]]] = {}
        self._v2: tuple[list[str], dict[bool, asyncio.Task[Encoded]]] = ([], {})

    async def index(self) -> Document:
        """The answer of ``/openapi/v3``; a URL carries its document's hash, so that it may be cached."""
        paths = {}
        for group, versions in self._catalog.groups():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                found = await self._document(group, version)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={found.digest}"}
        return {"paths": paths}

    async def document(self, group: str, version: str) -> Encoded | None:
        """The document of one group and version; None when it is not served."""
        if not self._catalog.resources(group, version):
            return None
        return await self._document(group, version)

    async def v2(self, *, protobuf: bool) -> Encoded:
        """The document of all groups in OpenAPI v2, as JSON or as gnostic's protobuf."""
        names = [(group, version) for group, versions in self._catalog.groups() for version in versions]
        found = [await self._document(*name) for name in names]
        digests = [each.digest for each in found]
        if digests != self._v2[0]:
            self._v2 = digests, {}
        made = self._v2[1]
        if protobuf not in made:
            bodies = [each.body for each in found]
            made[protobuf] = _making(_make_v2, bodies, self._version, protobuf)
        return await asyncio.shield(made[protobuf])

    async def _document(self, group: str, version: str) -> Encoded:
        served = self._catalog.resources(group, version)
        known, making = self._documents.get((group, version), (None, None))
        # A user-defined kind is another object as soon as its definition changes.
        current = known is not None and len(known) == len(served) and all(map(_same, known, served))
        if making is None or not current:
            making = _making(_make, served, self._version)
            self._documents[group, version] = served, making
        # The others wait for the document as well when the first who asked gives up.
        return await asyncio.shield(making)


def _making(make: Callable[..., Encoded], *arguments: Any) -> asyncio.Task[Encoded]:
    return asyncio.create_task(aside(make, *arguments, always=True))


def _same(one: Served, other: Served) -> bool:
    return one is other


def _make(catalog: Sequence[Served], version: str) -> Encoded:
    paths: Document = {}
    schemas: Document = {"io.k8s.apimachinery.pkg.apis.meta.v1.Status": _STATUS_SCHEMA}
    for served in catalog:
        schemas[schema_name(served.kind)] = _schema(served.kind)
        paths.update(_paths(served))
    document = {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": version},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    return Encoded(msgspec.json.encode(document))


def _make_v2(documents: list[bytes], version: str, protobuf: bool) -> Encoded:
    document = v2_document(map(msgspec.json.decode, documents), _TITLE, version)
    return Encoded(openapi_protobuf.encode(document) if protobuf else msgspec.json.encode(document))


def schema_name(kind: Kind[Any]) -> str:
    """``io.k8s.api.core.v1.Pod``, or the reversed group for kinds that are not Kubernetes' own."""
    if is_core(kind):
        return f"io.k8s.api.{kind.group.split('.')[0] or 'core'}.{kind.version}.{kind.kind}"
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def is_core(kind: Kind[Any]) -> bool:
    """True for kinds of Kubernetes itself, which take strategic merge patches; others answer 415 to them."""
    return not isinstance(kind, CustomKind) and is_kubernetes(kind)


def _gvk(kind: Kind[Any]) -> Document:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schema(kind: Kind[Any]) -> Document:
    return {**schema_for(kind), "x-kubernetes-group-version-kind": [_gvk(kind)]}


def _paths(served: Served) -> Document:
    kind = served.kind
    collection = kind.path("{namespace}" if kind.namespaced else None)
    one = f"{collection}/{{name}}"
    paths = {
        collection: {
            "get": _operation(kind, "list"),
            "post": _operation(kind, "post", body=(_JSON,)),
            "delete": _operation(kind, "deletecollection"),
        },
        one: _object_operations(kind),
    }
    if kind.namespaced:
        paths[kind.path()] = {"get": _operation(kind, "list")}
    if served.subresource("status"):
        operations = _object_operations(kind)
        del operations["delete"]
        paths[f"{one}/status"] = operations
    return paths


def _object_operations(kind: Kind[Any]) -> Document:
    patch_types = (*_MERGE_TYPES, _STRATEGIC) if is_core(kind) else _MERGE_TYPES
    return {
        "get": _operation(kind, "get"),
        "put": _operation(kind, "put", body=(_JSON,)),
        "patch": _operation(kind, "patch", body=patch_types),
        "delete": _operation(kind, "delete"),
    }


def _operation(kind: Kind[Any], action: str, body: tuple[str, ...] = ()) -> Document:
    reference = {"$ref": f"#/components/schemas/{schema_name(kind)}"}
    answer = _STATUS_REF if action in {"delete", "deletecollection"} else reference
    operation: Document = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
        "responses": {"200": {"description": "OK", "content": {_JSON: {"schema": answer}}}},
    }
    if body:
        content = {"type": "object"} if action == "patch" else reference
        operation["requestBody"] = {"content": {media: {"schema": content} for media in body}}
        # kubectl looks for this parameter on the patch operation before it leaves validation to the server.
        operation["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ]
    return operation
