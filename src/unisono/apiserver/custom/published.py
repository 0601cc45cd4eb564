"""Schemas of user-defined kinds as OpenAPI documents show them."""

from __future__ import annotations

from functools import cache
from typing import Any

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.schema import schema_of


@cache
def _header() -> dict[str, Any]:
    """The schemas of apiVersion, kind and metadata, which every object has."""
    plain: Kind[Object] = Kind("meta.k8s.io", "v1", "Object", "objects", Object)
    found: dict[str, Any] = schema_of(plain)["properties"]
    return found


def published_schema(schema: dict[str, Any], kind: Kind[Any]) -> dict[str, Any]:
    """The schema of a version with apiVersion, kind and metadata described."""
    properties = {**schema.get("properties", {}), **_header()}
    return {"description": f"{kind.kind} is a custom resource.", **schema, "type": "object", "properties": properties}
