"""What a definition's schema may say: causes are those of a Kubernetes 1.36 API server.

One difference is on purpose: the paths name the version that the user wrote, where Kubernetes names ``spec.validation``
as soon as all versions have the same schema.
"""

from __future__ import annotations

import pytest

from support.backends import OPTIONS, STRICT, opened
from support.definitions import CRDS, crd, obj_schema, version
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.structural.pruning import read_schema
from unisono.api.structural.rules import check_schema
from unisono.errors import ApiError, Invalid

TEXT = {"type": "string"}
ROOT = "spec.versions[0].schema.openAPIV3Schema"
A = f"{ROOT}.properties[a]"


def field(**schema):
    return obj_schema(a=schema)


BROKEN = [
    ({"properties": {}}, f"{ROOT}.type", "Required value: must not be empty at the root"),
    ({"type": "array", "items": TEXT}, f"{ROOT}.type", 'Invalid value: "array": must be object at the root'),
    (
        {"type": "object", "additionalProperties": TEXT},
        f"{ROOT}.additionalProperties",
        "Forbidden: must not be used at the root",
    ),
    (field(type="array"), f"{A}.items", "Required value: must be specified"),
    (field(type="array", items={}), f"{A}.items.type", "Required value: must not be empty for specified array items"),
    (field(description="x"), f"{A}.type", "Required value: must not be empty for specified object fields"),
    (
        field(type="text"),
        f"{A}.type",
        'Unsupported value: "text": supported values: "array", "boolean", "integer", "number", "object", "string"',
    ),
    (
        field(type="string", anyOf=[{"type": "string"}]),
        f"{A}.anyOf[0].type",
        "Forbidden: must be empty to be structural",
    ),
    (
        {**obj_schema(), "anyOf": [{"properties": {"b": {"minLength": 1}}}]},
        f"{ROOT}.properties[b]",
        f"Required value: because it is defined in {ROOT}.anyOf[0].properties[b]",
    ),
    (
        field(type="string", **{"x-kubernetes-embedded-resource": True}),
        f"{A}.type",
        'Invalid value: "string": must be object if x-kubernetes-embedded-resource is true',
    ),
    (
        obj_schema(metadata=obj_schema(labels={"type": "object"})),
        f"{ROOT}.properties[metadata]",
        "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
    ),
    (
        field(type="array", items=TEXT, uniqueItems=True),
        f"{A}.uniqueItems",
        "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
    ),
    (
        field(type="object", properties={"b": TEXT}, additionalProperties=TEXT),
        f"{A}.additionalProperties",
        "Forbidden: additionalProperties and properties are mutual exclusive",
    ),
    (
        field(type="array", items=TEXT, **{"x-kubernetes-list-type": "map"}),
        f"{A}.x-kubernetes-list-map-keys",
        "Required value: must not be empty if x-kubernetes-list-type is map",
    ),
    (
        field(
            type="array",
            items=obj_schema(k=TEXT),
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        ),
        f"{A}.items.properties[k].default",
        "Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
        "property",
    ),
    (
        field(type="array", items=obj_schema(k=TEXT), **{"x-kubernetes-list-type": "set"}),
        f"{A}.items.x-kubernetes-map-type",
        "Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
    ),
    (
        field(type="integer", default="x"),
        f"{A}.default",
        'Invalid value: "string":  in body must be of type integer: "string"',
    ),
    (
        field(type="object", properties={"b": TEXT}, default={"z": 1}),
        f"{A}.default",
        'Invalid value: {"z":1}: must not have unknown fields',
    ),
    (field(type="object", **{"$ref": "#/x"}), f"{A}.$ref", "Forbidden: $ref is not supported"),
    ({**obj_schema(), "nullable": True}, f"{ROOT}.nullable", "Forbidden: nullable cannot be true at the root"),
]
FINE = [
    field(**{"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
    field(
        **{
            "x-kubernetes-int-or-string": True,
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^a"}],
        }
    ),
    obj_schema(metadata=obj_schema(name={"type": "string", "pattern": "^a"})),
    field(type="object", **{"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True}),
    field(type="object", additionalProperties=True),
    field(type="string", nullable=True, default="x"),
]


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


async def causes(service, definition):
    with pytest.raises(Invalid) as caught:
        await service.create(CRDS, None, definition, OPTIONS)
    return {(cause["field"], cause["message"]) for cause in caught.value.details["causes"]}


@pytest.mark.parametrize(("schema", "path", "message"), BROKEN)
def test_broken_schemas_are_refused(schema, path, message):
    clean, _, _ = read_schema(schema, ROOT)
    assert (path, message) in {(error.path, error.body()) for error in check_schema(clean, ROOT)}


@pytest.mark.parametrize("schema", FINE)
def test_schemas_that_look_odd_but_are_fine(schema):
    assert check_schema(schema, ROOT) == []


async def test_definitions_are_checked_as_a_whole(service):
    broken = crd(
        "widgets",
        version("V1", obj_schema(a=TEXT), additionalPrinterColumns=[{"name": "", "type": "x", "jsonPath": "spec"}]),
        scope="Everywhere",
        shortNames=["A_b"],
        listKind="Widget",
    )
    broken["metadata"]["name"] = "other.example.com"
    found = await causes(service, broken)
    fields = {path for path, _ in found}
    assert fields == {
        "metadata.name",
        "spec.scope",
        "spec.versions[0].name",
        "spec.versions[0].additionalPrinterColumns[0].name",
        "spec.versions[0].additionalPrinterColumns[0].type",
        "spec.versions[0].additionalPrinterColumns[0].JSONPath",
        "spec.names.shortNames[0]",
        "spec.names.listKind",
    }
    assert ("metadata.name", 'Invalid value: "other.example.com": must be spec.names.plural+"."+spec.group') in found


async def test_kubernetes_own_groups_need_an_approval(service):
    definition = crd(group="storage.k8s.io")
    found = await causes(service, definition)
    assert next(iter(found))[0] == "metadata.annotations[api-approved.kubernetes.io]"
    definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    await service.create(CRDS, None, definition, OPTIONS)


async def test_words_that_schemas_do_not_have(service):
    definition = crd("widgets", version(schema=field(type="string", maxlength=3)))
    at = "spec.versions[0].schema.openAPIV3Schema.properties.a.maxlength"
    with pytest.raises(ApiError, match="strict decoding error") as caught:
        await service.create(CRDS, None, definition, STRICT)
    assert f'unknown field "{at}"' in caught.value.message
    written = await service.create(CRDS, None, definition, OPTIONS)
    assert written.warnings == [f'unknown field "{at}"']


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("^a$", "a", "a\n"),
        (r"^[[:alpha:]]+\z", "abc", "ab1"),
        (r"^\d+$", "12", "\u0661"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        ("^(?i)abc$", "ABC", "abd"),
        ("^[]a]$", "]", "b"),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern, matching, other):
    compiled = compile_pattern(pattern)
    assert compiled.found_in(matching)
    assert not compiled.found_in(other)


def test_patterns_that_cannot_be_read():
    with pytest.raises(PatternError):
        compile_pattern("([")
