"""Manifests as users write them pass the whole way: reading, decoding, the CRD's schema, defaults, validation."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from unisono.api import kinds
from unisono.api.crds import structural_schema
from unisono.api.decode import decode, encode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
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


def written() -> list[Any]:
    """Objects of kinds that come with a definition, in every manifest here that users have or are shown."""
    here = FOLDER.parents[2]
    found = []
    for folder in (FOLDER, FOLDER.parents[1] / "manifests", here / "examples"):
        for path in sorted(folder.rglob("*.yaml")):
            for number, document in enumerate(expand_lists(load_all(path.read_bytes(), path.name))):
                value = document.value
                kind = kinds.find(value.get("apiVersion", ""), value.get("kind", ""))
                if kind in kinds.CUSTOM_KINDS:
                    found.append(pytest.param(kind, value, id=f"{path.relative_to(here)}-{number}"))
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


@pytest.mark.parametrize(("kind", "value"), written())
def test_a_definition_has_every_field_as_it_is_written(kind: Kind[Any], value: dict[str, Any]) -> None:
    """With its default validation, kubectl lets a real server refuse what the definition's schema does not have."""
    assert problems(structural_schema(kind), value) == []


def test_the_other_spelling_of_a_guarantee_is_in_the_definition_of_queues_and_means_the_same() -> None:
    amounts = {"cpu": 20, "memory": "1Gi"}
    head = {"apiVersion": kinds.QUEUES.api_version, "kind": "Queue", "metadata": {"name": "q"}}
    alias = head | {"spec": {"guaranteed": amounts}}
    assert problems(structural_schema(kinds.QUEUES), alias) == []
    decoded = decode(kinds.QUEUES, alias)
    assert decoded.unknown_fields == []
    assert encode(decoded.obj) == encode(
        decode(kinds.QUEUES, head | {"spec": {"guarantee": {"resource": amounts}}}).obj
    )
