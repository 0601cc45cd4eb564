"""The OpenAPI v2 document of everything that is served, made of the v3 documents (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
            paths[path] = {method: _operation(operation) for method, operation in item.items()}
        for name, schema in document["components"]["schemas"].items():
            definitions[name] = _schema(schema)
    return {
        "swagger": "2.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "definitions": definitions,
    }


def _schema(schema: Document) -> Document:
    if "$ref" in schema:
        return {"$ref": _V2_SCHEMAS + schema["$ref"].removeprefix(_V3_SCHEMAS)}
    found = {key: value for key, value in schema.items() if key not in _V3_ONLY}
    if schema.get("x-kubernetes-int-or-string"):
        return found | {"type": "string", "format": "int-or-string"}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        # Clients of v2 take every field that is not named for a mistake, so that nothing is named.
        dropped = ("type", "properties", "items", "additionalProperties", "required")
        return {key: value for key, value in found.items() if key not in dropped}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _schema(found[key])
    if "properties" in found:
        found["properties"] = {name: _schema(each) for name, each in found["properties"].items()}
    return found


def _operation(operation: Document) -> Document:
    found = {key: value for key, value in operation.items() if key.startswith("x-")}
    parameters = [
        {"name": each["name"], "in": each["in"], **each["schema"]} for each in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    if content:
        found["consumes"] = list(content)
        body = _schema(next(iter(content.values()))["schema"])
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": body})
    if parameters:
        found["parameters"] = parameters
    found["produces"] = [_JSON]
    found["responses"] = {code: _response(answer) for code, answer in operation["responses"].items()}
    return found


def _response(answer: Document) -> Document:
    schema = answer.get("content", {}).get(_JSON, {}).get("schema")
    found = {"description": answer["description"]}
    return found | {"schema": _schema(schema)} if schema else found
