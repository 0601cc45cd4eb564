"""Manifests as users write them pass the whole way: reading, decoding, the CRD's schema, defaults, validation."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from unisono.api import kinds
from unisono.api.crds import structural_schema
from unisono.api.decode import decode, encode
from unisono.api.defaulting import apply_defaults
from unisono.api.schema import schema_of
from unisono.api.validation import validate
from unisono.api.yaml import expand_lists, load_all

FOLDER = Path(__file__).parent / "manifests"


def documents() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in expand_lists(load_all(path.read_bytes(), path.name)):
            value = document.value
            name = f"{path.stem}-{value['kind']}-{value['metadata']['name']}"
            found.append(pytest.param(value, id=name))
    return found


def problems(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """Fields that the schema does not have, and values of another type."""
    if schema.get("x-kubernetes-int-or-string"):
        return [] if isinstance(value, str | int) else [path]
    match value:
        case dict() if "properties" in schema:
            known = schema["properties"]
            unknown = [f"{path}.{key}" for key in value if key not in known]
            return unknown + [
                p for key, each in value.items() if key in known for p in problems(known[key], each, f"{path}.{key}")
            ]
        case dict() if "additionalProperties" in schema:
            return [
                p
                for key, each in value.items()
                for p in problems(schema["additionalProperties"], each, f"{path}[{key}]")
            ]
        case list():
            return [p for index, each in enumerate(value) for p in problems(schema["items"], each, f"{path}[{index}]")]
    types = {bool: "boolean", int: "integer", str: "string", dict: "object"}
    return [] if types[type(value)] == schema["type"] else [path]


@pytest.mark.parametrize("value", documents())
def test_the_whole_way(value: dict[str, Any]) -> None:
    kind = kinds.find(value["apiVersion"], value["kind"])
    assert kind is not None
    decoded = decode(kind, value)
    assert (decoded.unknown_fields, decoded.type_errors) == ([], [])
    schema = structural_schema(kind) if kind in kinds.CUSTOM_KINDS else schema_of(kind)
    assert problems(schema, msgspec.json.decode(encode(decoded.obj))) == []
    apply_defaults(kind, decoded.obj)
    assert validate(kind, decoded.obj) == []
    shown = msgspec.json.decode(encode(decoded.obj))
    assert problems(schema, shown) == []
    again = decode(kind, shown).obj
    assert validate(kind, again, decoded.obj) == []
    assert encode(again) == encode(decoded.obj)
