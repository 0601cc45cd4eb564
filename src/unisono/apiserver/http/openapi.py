"""OpenAPI documents, v3 by group and version, and v2 as JSON and protobuf: what clients check, patch and explain by."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from unisono.api.kind import Kind
from unisono.api.schema import is_kubernetes
from unisono.apiserver.catalog import Catalog, Served
from unisono.apiserver.custom.kinds import CustomKind, schema_for
from unisono.apiserver.flow_control import aside
from unisono.apiserver.http.protobuf import FIXED64, write_bytes, write_number, write_varint

# The OpenAPI v2 document of everything that is served, made of the v3 documents (pure).

Document = dict[str, Any]
_V3_SCHEMAS, _V2_SCHEMAS = "#/components/schemas/", "#/definitions/"
_JSON = "application/json"
# Keywords of v3 that v2 does not know; what they say is told by the server when it refuses an object.
_V3_ONLY = frozenset({"anyOf", "oneOf", "allOf", "not", "nullable", "x-kubernetes-int-or-string"})


def v2_document(documents: Iterable[Document], title: str, version: str) -> Document:
    """One document of v2 with all paths and definitions of ``documents``."""
    paths: Document = {}
    definitions: Document = {}
    for document in documents:
        for path, item in document["paths"].items():
            paths[path] = {method: _operation_v2(operation) for method, operation in item.items()}
        for name, schema in document["components"]["schemas"].items():
            definitions[name] = _schema_v2(schema)
    return {"swagger": "2.0", "info": {"title": title, "version": version}, "paths": paths, "definitions": definitions}


def _schema_v2(schema: Document) -> Document:
    if "$ref" in schema:
        return {"$ref": _V2_SCHEMAS + schema["$ref"].removeprefix(_V3_SCHEMAS)}
    converted = {key: value for key, value in schema.items() if key not in _V3_ONLY}
    if schema.get("x-kubernetes-int-or-string"):
        return converted | {"type": "string", "format": "int-or-string"}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        # Clients of v2 take every field that is not named for a mistake, so that nothing is named.
        dropped = ("type", "properties", "items", "additionalProperties", "required")
        return {key: value for key, value in converted.items() if key not in dropped}
    for key in ("items", "additionalProperties"):
        if isinstance(converted.get(key), dict):
            converted[key] = _schema_v2(converted[key])
    if "properties" in converted:
        converted["properties"] = {name: _schema_v2(each) for name, each in converted["properties"].items()}
    return converted


def _operation_v2(operation: Document) -> Document:
    converted = {key: value for key, value in operation.items() if key.startswith("x-")}
    parameters = [
        {"name": each["name"], "in": each["in"], **each["schema"]} for each in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        converted["consumes"] = list(content)
        body = _schema_v2(next(iter(content.values()))["schema"])
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": body})
    if parameters:
        converted["parameters"] = parameters
    converted["produces"] = [_JSON]
    converted["responses"] = {code: _response_v2(answer) for code, answer in operation["responses"].items()}
    return converted


def _response_v2(answer: Document) -> Document:
    schema = answer.get("content", {}).get(_JSON, {}).get("schema")
    converted = {"description": answer["description"]}
    return converted | {"schema": _schema_v2(schema)} if schema else converted


# OpenAPI v2 documents in the protobuf form that kubectl and the Go clients read (gnostic's ``openapi.v2.Document``).
#
# The field numbers are those of the public ``OpenAPIv2.proto``. What has no field of its own, such as the extensions
# whose names begin with ``x-``, goes as YAML text, of which JSON is a part.

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
Values = Mapping[str, Any]
_SCHEMA_TEXTS = (("$ref", 1), ("format", 2), ("title", 3), ("description", 4), ("pattern", 13))
_SCHEMA_DOUBLES = (("multipleOf", 6), ("maximum", 7), ("minimum", 9))
_SCHEMA_NUMBERS = (
    ("exclusiveMaximum", 8),
    ("exclusiveMinimum", 10),
    ("maxLength", 11),
    ("minLength", 12),
    ("maxItems", 14),
    ("minItems", 15),
    ("uniqueItems", 16),
    ("maxProperties", 17),
    ("minProperties", 18),
)
_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}
_QUERY_PARAMETER = 3


def encode(document: Values) -> bytes:
    """The document as protobuf."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(write_bytes(2, _named(path, _path(item))) for path, item in document["paths"].items())
    definitions = _each(1, document["definitions"], _schema_bytes)
    return _text(1, document["swagger"]) + write_bytes(2, info) + write_bytes(8, paths) + write_bytes(9, definitions)


def _text(number: int, value: str) -> bytes:
    return write_bytes(number, value.encode())


def _texts(number: int, values: Any) -> bytes:
    return b"".join(_text(number, str(value)) for value in values or ())


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + write_bytes(2, value)


def _each(number: int, values: Values, encoder: Callable[[Any], bytes]) -> bytes:
    return b"".join(write_bytes(number, _named(name, encoder(value))) for name, value in values.items())


def _any(value: Any) -> bytes:
    return write_bytes(2, msgspec.json.encode(value) + b"\n")


def _extensions(number: int, values: Values) -> bytes:
    return _each(number, {name: value for name, value in values.items() if name.startswith("x-")}, _any)


def _double(number: int, value: float) -> bytes:
    return write_varint(number << 3 | FIXED64) + struct.pack("<d", value)


def _schema_bytes(schema: Values) -> bytes:
    parts = [_text(number, schema[key]) for key, number in _SCHEMA_TEXTS if key in schema]
    if "default" in schema:
        parts.append(write_bytes(5, _any(schema["default"])))
    parts += [_double(number, float(schema[key])) for key, number in _SCHEMA_DOUBLES if key in schema]
    parts += [write_number(number, int(schema[key])) for key, number in _SCHEMA_NUMBERS if key in schema]
    parts.append(_texts(19, schema.get("required")))
    parts += [write_bytes(20, _any(value)) for value in schema.get("enum") or ()]
    further = schema.get("additionalProperties")
    if isinstance(further, bool):
        parts.append(write_bytes(21, write_number(2, further)))
    elif further is not None:
        parts.append(write_bytes(21, write_bytes(1, _schema_bytes(further))))
    if "type" in schema:
        parts.append(write_bytes(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(write_bytes(23, write_bytes(1, _schema_bytes(schema["items"]))))
    if "properties" in schema:
        parts.append(write_bytes(25, _each(1, schema["properties"], _schema_bytes)))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _path(item: Values) -> bytes:
    return b"".join(write_bytes(_METHODS[method], _operation_bytes(operation)) for method, operation in item.items())


def _operation_bytes(operation: Values) -> bytes:
    return b"".join(
        (
            _texts(6, operation.get("produces")),
            _texts(7, operation.get("consumes")),
            # A parameter is a ParametersItem that holds a Parameter.
            *(write_bytes(8, write_bytes(1, _parameter(each))) for each in operation.get("parameters", ())),
            write_bytes(9, _each(1, operation["responses"], _response_bytes)),
            _extensions(13, operation),
        )
    )


def _parameter(parameter: Values) -> bytes:
    if parameter["in"] == "body":
        body = _text(2, parameter["name"]) + _text(3, "body")
        body += write_number(4, bool(parameter.get("required"))) + write_bytes(5, _schema_bytes(parameter["schema"]))
        return write_bytes(1, body)
    query = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    if parameter.get("uniqueItems"):
        query += write_number(20, 1)
    return write_bytes(2, write_bytes(_QUERY_PARAMETER, query))


def _response_bytes(answer: Values) -> bytes:
    content = _text(1, answer["description"])
    if "schema" in answer:
        content += write_bytes(2, write_bytes(1, _schema_bytes(answer["schema"])))
    return write_bytes(1, content)


_TITLE = "Unisono"
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
                encoded = await self._document(group, version)
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={encoded.digest}"}
        return {"paths": paths}

    async def document(self, group: str, version: str) -> Encoded | None:
        """The document of one group and version; None when it is not served."""
        if not self._catalog.resources(group, version):
            return None
        return await self._document(group, version)

    async def v2(self, *, protobuf: bool) -> Encoded:
        """The document of all groups in OpenAPI v2, as JSON or as gnostic's protobuf."""
        names = [(group, version) for group, versions in self._catalog.groups() for version in versions]
        documents = [await self._document(*name) for name in names]
        digests = [each.digest for each in documents]
        if digests != self._v2[0]:
            self._v2 = digests, {}
        made = self._v2[1]
        if protobuf not in made:
            bodies = [each.body for each in documents]
            made[protobuf] = _making(_make_v2, bodies, self._version, protobuf)
        return await asyncio.shield(made[protobuf])

    async def _document(self, group: str, version: str) -> Encoded:
        served = self._catalog.resources(group, version)
        previous, making = self._documents.get((group, version), (None, None))
        # A user-defined kind is another object as soon as its definition changes.
        current = previous is not None and len(previous) == len(served) and all(map(_same, previous, served))
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
    return Encoded(encode(document) if protobuf else msgspec.json.encode(document))


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
