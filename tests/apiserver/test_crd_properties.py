"""Random schemas and values: completed objects are stable, valid ones stay valid, and nothing makes the server fail."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.backends import OPTIONS, opened, value
from support.definitions import CRDS, crd, obj_schema, served, version, widget
from support.examples import examples
from unisono.api.structural import add_defaults, check_lists, check_value, compile_schema, drop_nulls, prune
from unisono.api.structural.pruning import read_schema
from unisono.api.structural.rules import check_schema
from unisono.errors import ApiError

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1.0, 2.5, -1e30]),
    st.sampled_from(["", "a", "b", "abc", "\N{SNOWMAN}", "2020-01-01T00:00:00Z"]),
)
JSON = st.recursive(
    SCALARS,
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(NAMES, below, max_size=3)),
    max_leaves=8,
)


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    schema |= draw(
        st.sampled_from(
            [{}, {"enum": ["a", "b"]}, {"maxLength": 1}, {"minLength": 1}, {"pattern": "^a"}, {"format": "date-time"}]
        )
    )
    return draw(completed(schema, st.sampled_from(["", "a", "b"])))


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": draw(st.sampled_from(["integer", "number"]))}
    schema |= draw(
        st.sampled_from(
            [{}, {"minimum": 0}, {"maximum": 2, "exclusiveMaximum": True}, {"multipleOf": 2}, {"enum": [1]}]
        )
    )
    return draw(completed(schema, st.integers(-1, 2)))


def completed(schema: dict[str, Any], defaults: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The schema with or without a default that it allows, nullable or not."""
    extra = st.fixed_dictionaries({}, optional={"nullable": st.just(True), "default": defaults})
    return extra.map(lambda found: _kept(schema | found))


def _kept(schema: dict[str, Any]) -> dict[str, Any]:
    if "default" in schema and check_value(compile_schema(schema), schema["default"]):
        return {key: each for key, each in schema.items() if key != "default"}
    return schema


def objects(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    made = st.dictionaries(NAMES, below, min_size=1, max_size=3).flatmap(
        lambda fields: st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=2).map(
            lambda needed: {"type": "object", "properties": fields} | ({"required": needed} if needed else {})
        )
    )
    return made | made.map(lambda schema: schema | {"x-kubernetes-preserve-unknown-fields": True})


def lists(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    plain = st.builds(lambda items, most: {"type": "array", "items": items, "maxItems": most}, below, st.integers(0, 3))
    sets = st.just({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"})
    item = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    return plain | sets | st.just({"type": "array", "items": item, **keyed})


def maps(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return below.map(
        lambda values: {"type": "object", "additionalProperties": {k: v for k, v in values.items() if k != "default"}}
    )


SCHEMAS = objects(
    st.recursive(
        strings() | numbers() | st.just({"type": "boolean"}) | st.just({"x-kubernetes-int-or-string": True}),
        lambda below: objects(below) | lists(below) | maps(below),
        max_leaves=6,
    )
)


def complete(schema: dict[str, Any], found: Any) -> list[str]:
    node = compile_schema(schema)
    dropped = prune(node, found)
    drop_nulls(node, found)
    add_defaults(node, found)
    return dropped


@given(SCHEMAS, st.dictionaries(NAMES, JSON, max_size=3))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_completing_twice_is_completing_once(schema, found):
    complete(schema, found)
    again = copy.deepcopy(found)
    assert complete(schema, again) == []
    assert again == found


@given(SCHEMAS, st.dictionaries(NAMES, JSON, max_size=3))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_validity_does_not_depend_on_the_number_of_checks(schema, found):
    complete(schema, found)
    node = compile_schema(schema)
    before = copy.deepcopy(found)
    first = [error.message() for error in (*check_value(node, found), *check_lists(node, found))]
    assert found == before
    assert [error.message() for error in (*check_value(node, found), *check_lists(node, found))] == first
    # What did not change is never refused by the schema.
    assert check_value(node, found, found) == []


@given(SCHEMAS)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_schemas_of_this_grammar_are_accepted(schema):
    clean, unknown, errors = read_schema(schema, "s")
    assert (clean, unknown, errors) == (schema, [], [])
    assert check_schema(schema, "s") == []


@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "anyOf", "default", "enum", "x"]), JSON))
@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_schema_makes_reading_fail(schema):
    clean, _, errors = read_schema(schema, "s")
    if not errors:
        check_schema(clean, "s")
        check_value(compile_schema(clean), {"a": 1})


async def outcome(attempt):
    """The object, or None when it was refused in good form."""
    try:
        return value((await attempt).object)
    except ApiError as error:
        assert error.code in {400, 403, 409, 415, 422}, error
        assert error.message
        return None


@pytest.mark.parametrize("_round", range(2))
async def test_nothing_fails_on_the_way(_round):
    """Definitions, objects, changed definitions and patches, all at random; what is stored is stable."""
    found: list[tuple[Any, Any, Any, Any]] = []

    @given(SCHEMAS, SCHEMAS, JSON, JSON)
    @settings(max_examples=examples(12), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def collect(first, second, spec, patch):
        found.append((first, second, spec, patch))

    collect()
    async with opened() as backend:
        service = backend.service
        for index, (first, second, spec, patch) in enumerate(found):
            kind_name = f"Widget{index}"
            name = f"widgets{index}"
            definition = crd(name, version(schema=obj_schema(spec=first)), kind=kind_name)
            assert await outcome(service.create(CRDS, None, definition, OPTIONS)) is not None
            kind = served(service.context, kind_name)
            made = await outcome(service.create(kind, "default", widget(spec=spec, kind=kind_name), OPTIONS))
            stored = value(await service.get(CRDS, None, f"{name}.example.com"))
            stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = second
            assert await outcome(service.update(CRDS, None, f"{name}.example.com", stored, OPTIONS)) is not None
            if made is None:
                continue
            kind = served(service.context, kind_name)
            shown = value(await service.get(kind, "default", "w"))
            same = await outcome(service.patch(kind, "default", "w", {"metadata": {}}, "merge", OPTIONS))
            assert same is None or same["metadata"]["generation"] == shown["metadata"]["generation"]
            await outcome(service.patch(kind, "default", "w", {"spec": patch}, "merge", OPTIONS))
            value(await service.get(kind, "default", "w"))
