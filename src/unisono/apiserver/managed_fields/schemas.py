"""How values merge, read from OpenAPI schemas: which maps and lists are one field, and what names a list item.

Without word from the schema maps are granular (each key is a field of its own) and lists atomic (one field).
"""

from __future__ import annotations

from typing import Any

from unisono.apiserver.failures import bad_request
from unisono.apiserver.managed_fields import paths

Schema = dict[str, Any]
_ANY: Schema = {}


def child(schema: Schema, name: str) -> Schema:
    """The schema of a field or of a map's value."""
    found = schema.get("properties", _ANY).get(name)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else _ANY


def declared(schema: Schema, name: str) -> bool:
    """Whether ``name`` is a field of a struct, and not a key of a map."""
    return name in schema.get("properties", _ANY)


def items(schema: Schema) -> Schema:
    """The schema of a list's items."""
    found = schema.get("items")
    return found if isinstance(found, dict) else _ANY


def atomic(value: Any, schema: Schema) -> bool:
    """Whether the value is one field, whatever it holds."""
    if isinstance(value, dict):
        return bool(schema.get("x-kubernetes-map-type") == "atomic")
    if isinstance(value, list):
        return bool(schema.get("x-kubernetes-list-type", "atomic") == "atomic")
    return True


def element(item: Any, schema: Schema) -> str:
    """The path element of an item of the associative list ``schema``; absent keys take their defaults.

    Raises:
        ApiError: 400 when the item cannot be told from others.

    """
    if schema.get("x-kubernetes-list-type") == "set":
        if isinstance(item, dict | list) or item is None:
            raise bad_request("a list that is a set must hold plain values")
        return paths.value(item)
    if not isinstance(item, dict):
        raise bad_request("associative list with keys may not have non-map elements")
    names: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    known = items(schema).get("properties", _ANY)
    keys = {}
    for name in names:
        found = item.get(name)
        if found is None:
            found = known.get(name, _ANY).get("default")
        if found is not None:
            keys[name] = found
    if not keys:
        listed = " ".join(f'"{name}"' for name in names)
        raise bad_request(
            f"associative list with keys has an element that omits all key fields [{listed}] "
            "(and doesn't have default values for any key fields)"
        )
    return paths.item(keys)


def index(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """Items of an associative list by path element, in order; duplicates stay together."""
    found: dict[str, list[Any]] = {}
    for each in values:
        found.setdefault(element(each, schema), []).append(each)
    return found
