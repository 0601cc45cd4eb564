"""OpenAPI documents, v3 by group and version, and v2: what clients need to check, to patch and to explain."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import msgspec

from unisono.api.kind import Kind
from unisono.api.schema import is_kubernetes
from unisono.apiserver.catalog import Catalog, Served
from unisono.apiserver.custom.kinds import CustomKind, schema_for
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


class OpenApi:
    """The documents of a catalog, made when first asked for and kept."""

    def __init__(self, catalog: Catalog, version: str) -> None:
        self._catalog = catalog
        self._version = version
        self._documents: dict[tuple[str, str], tuple[list[Served], tuple[str, bytes]]] = {}
        self._v2: tuple[list[str], dict[bool, tuple[str, bytes]]] = ([], {})

    def index(self) -> Document:
        """The answer of ``/openapi/v3``; a URL carries its document's hash, so that it may be cached."""
        paths = {}
        for group, versions in self._catalog.groups():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                digest, _ = self._document(group, version)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def document(self, group: str, version: str) -> tuple[str, bytes] | None:
        """Hash and encoded document of one group and version; None when it is not served."""
        if not self._catalog.resources(group, version):
            return None
        return self._document(group, version)

    async def v2(self, *, protobuf: bool) -> tuple[str, bytes]:
        """Hash and encoded document of all groups in OpenAPI v2, as JSON or as gnostic's protobuf."""
        found = [self._document(group, version) for group, versions in self._catalog.groups() for version in versions]
        digests = [digest for digest, _ in found]
        if digests != self._v2[0]:
            self._v2 = digests, {}
        made = self._v2[1]
        if protobuf not in made:
            documents = [document for _, document in found]
            # All schemas at once take a while to write.
            made[protobuf] = await asyncio.to_thread(_make_v2, documents, self._version, protobuf=protobuf)
        return made[protobuf]

    def _document(self, group: str, version: str) -> tuple[str, bytes]:
        served = self._catalog.resources(group, version)
        known, found = self._documents.get((group, version), (None, ("", b"")))
        # A user-defined kind is another object as soon as its definition changes.
        if known is None or len(known) != len(served) or any(a is not b for a, b in zip(known, served, strict=True)):
            encoded = msgspec.json.encode(self._make(group, version))
            found = hashlib.sha256(encoded).hexdigest()[:32].upper(), encoded
            self._documents[group, version] = served, found
        return found

    def _make(self, group: str, version: str) -> Document:
        paths: Document = {}
        schemas: Document = {"io.k8s.apimachinery.pkg.apis.meta.v1.Status": _STATUS_SCHEMA}
        for served in self._catalog.resources(group, version):
            schemas[schema_name(served.kind)] = _schema(served.kind)
            paths.update(_paths(served))
        return {
            "openapi": "3.0.0",
            "info": {"title": _TITLE, "version": self._version},
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _make_v2(documents: list[bytes], version: str, *, protobuf: bool) -> tuple[str, bytes]:
    document = v2_document(map(msgspec.json.decode, documents), _TITLE, version)
    body = openapi_protobuf.encode(document) if protobuf else msgspec.json.encode(document)
    return hashlib.sha256(body).hexdigest()[:32].upper(), body


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
