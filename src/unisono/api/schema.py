"""OpenAPI v3 structural schemas, generated from the structs."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from unisono.api.fields import QUANTITY_PATTERN
from unisono.api.kind import Kind
from unisono.api.merge_keys import ATOMIC_MAPS, ATOMIC_STRUCTS, list_merge
from unisono.api.shape import FieldShape, Shape, shape_of, summary

_INT_OR_STRING: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers convert recognized "
    "schemas to the latest internal value, and may reject unrecognized values."
)
_KIND = "Kind is a string value representing the REST resource this object represents. In CamelCase."


@cache
def schema_of(kind: Kind[Any]) -> dict[str, Any]:
    """The schema of a kind with metadata inline; shared, so copy before changing it.

    Lists of built-in kinds carry ``x-kubernetes-patch-merge-key``, ``-patch-strategy``, ``-list-type`` and
    ``-list-map-keys``; the caller adds ``x-kubernetes-group-version-kind``.
    """
    struct: type[msgspec.Struct] = kind.struct
    schema = _render(shape_of(struct))
    told = {"apiVersion": _API_VERSION, "kind": _KIND}
    properties = {
        name: {**each, "description": told[name]} if name in told else each
        for name, each in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _render(shape: Shape) -> dict[str, Any]:
    """A dictionary of its own, with shared ones below it: many kinds hold the same structs."""
    match shape.kind:
        case "object" if shape.struct is not None:
            schema = _render_struct(shape.struct)
        case "object":
            schema = _render_object(shape)
        case "array":
            schema = {"type": "array", "items": _render(_item(shape))}
        case "map":
            schema = {"type": "object", "additionalProperties": _render(_item(shape))}
        case "quantity":
            schema = {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN}
        case "int-or-string":
            schema = dict(_INT_OR_STRING)
        case "any":
            schema = {"x-kubernetes-preserve-unknown-fields": True}
        case "integer":
            schema = {"type": "integer", "format": "int64"}
        case scalar:
            schema = {"type": scalar}
    return schema | shape.rules


@cache
def _render_struct(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return _render_object(shape_of(struct))


def _item(shape: Shape) -> Shape:
    return shape.item or Shape("any")


def _render_object(shape: Shape) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    name = ""
    if shape.struct is not None:
        schema["description"] = summary(shape.struct)
        name = shape.struct.__name__
        if name in ATOMIC_STRUCTS:
            schema["x-kubernetes-map-type"] = "atomic"
    schema["properties"] = {wire: _render_field(name, each) for wire, each in shape.fields.items()}
    required = sorted(wire for wire, each in shape.fields.items() if each.required)
    if required:
        schema["required"] = required
    return schema


def _render_field(struct: str, entry: FieldShape) -> dict[str, Any]:
    schema = _render(entry.shape)
    if entry.description:
        schema["description"] = entry.description
    merge = list_merge(struct, entry.name)
    if merge is not None:
        schema |= merge.schema()
        if merge.defaults:
            items, defaults = schema["items"], dict(merge.defaults)
            properties = {
                name: {**each, "default": defaults[name]} if name in defaults else each
                for name, each in items["properties"].items()
            }
            schema["items"] = {**items, "properties": properties}
    elif (struct, entry.name) in ATOMIC_MAPS:
        schema["x-kubernetes-map-type"] = "atomic"
    elif entry.shape.kind == "array":
        schema["x-kubernetes-list-type"] = "atomic"
    return schema
