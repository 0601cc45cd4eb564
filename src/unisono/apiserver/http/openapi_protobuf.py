"""OpenAPI v2 documents in the protobuf form that kubectl and the Go clients read (gnostic's ``openapi.v2.Document``).

The field numbers are those of the public ``OpenAPIv2.proto``. What has no field of its own, such as the extensions
whose names begin with ``x-``, goes as YAML text, of which JSON is a part.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from unisono.apiserver.http.protobuf_wire import FIXED64, write_bytes, write_number, write_varint

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
Document = Mapping[str, Any]
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


def encode(document: Document) -> bytes:
    """The document as protobuf."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(write_bytes(2, _named(path, _path(item))) for path, item in document["paths"].items())
    definitions = _each(1, document["definitions"], _schema)
    return _text(1, document["swagger"]) + write_bytes(2, info) + write_bytes(8, paths) + write_bytes(9, definitions)


def _text(number: int, value: str) -> bytes:
    return write_bytes(number, value.encode())


def _texts(number: int, values: Any) -> bytes:
    return b"".join(_text(number, str(value)) for value in values or ())


def _named(name: str, value: bytes) -> bytes:
    return _text(1, name) + write_bytes(2, value)


def _each(number: int, values: Document, encoder: Callable[[Any], bytes]) -> bytes:
    return b"".join(write_bytes(number, _named(name, encoder(value))) for name, value in values.items())


def _any(value: Any) -> bytes:
    return write_bytes(2, msgspec.json.encode(value) + b"\n")


def _extensions(number: int, values: Document) -> bytes:
    return _each(number, {name: value for name, value in values.items() if name.startswith("x-")}, _any)


def _double(number: int, value: float) -> bytes:
    return write_varint(number << 3 | FIXED64) + struct.pack("<d", value)


def _schema(schema: Document) -> bytes:
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
        parts.append(write_bytes(21, write_bytes(1, _schema(further))))
    if "type" in schema:
        parts.append(write_bytes(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(write_bytes(23, write_bytes(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(write_bytes(25, _each(1, schema["properties"], _schema)))
    parts.append(_extensions(31, schema))
    return b"".join(parts)


def _path(item: Document) -> bytes:
    return b"".join(write_bytes(_METHODS[method], _operation(operation)) for method, operation in item.items())


def _operation(operation: Document) -> bytes:
    return b"".join(
        (
            _texts(6, operation.get("produces")),
            _texts(7, operation.get("consumes")),
            # A parameter is a ParametersItem that holds a Parameter.
            *(write_bytes(8, write_bytes(1, _parameter(each))) for each in operation.get("parameters", ())),
            write_bytes(9, _each(1, operation["responses"], _response)),
            _extensions(13, operation),
        )
    )


def _parameter(parameter: Document) -> bytes:
    if parameter["in"] == "body":
        body = _text(2, parameter["name"]) + _text(3, "body")
        body += write_number(4, bool(parameter.get("required"))) + write_bytes(5, _schema(parameter["schema"]))
        return write_bytes(1, body)
    query = _text(2, parameter["in"]) + _text(4, parameter["name"]) + _text(6, parameter["type"])
    if parameter.get("uniqueItems"):
        query += write_number(20, 1)
    return write_bytes(2, write_bytes(_QUERY_PARAMETER, query))


def _response(answer: Document) -> bytes:
    found = _text(1, answer["description"])
    if "schema" in answer:
        found += write_bytes(2, write_bytes(1, _schema(answer["schema"])))
    return write_bytes(1, found)
