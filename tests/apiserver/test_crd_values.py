"""Objects of user-defined kinds against their schema: the answers are those of a Kubernetes 1.36 API server."""

from __future__ import annotations

import pytest

from support.backends import OPTIONS, STRICT, opened, value
from support.definitions import crd, define, obj_schema, version, widget
from unisono.apiserver.types import WriteOptions
from unisono.errors import ApiError, Invalid

TEXT = {"type": "string"}
SPEC = {
    "i": {"type": "integer", "minimum": 1, "maximum": 5},
    "x": {"type": "integer", "format": "int32"},
    "n": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
    "step": {"type": "number", "multipleOf": 3},
    "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a.*$"},
    "e": {"type": "string", "enum": ["p", "q"]},
    "ie": {"type": "integer", "enum": [1, 2]},
    "b": {"type": "boolean"},
    "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": TEXT},
    "o": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": TEXT},
    "ios": {"x-kubernetes-int-or-string": True},
    "dt": {"type": "string", "format": "date-time"},
    "ip": {"type": "string", "format": "ipv4"},
    "set": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    "map": {
        "type": "array",
        "items": obj_schema(k=TEXT, p={"type": "integer", "default": 7}, required=["k"]),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k", "p"],
    },
    "nu": {"type": "string", "nullable": True},
    "nd": {"type": "string", "default": "dd"},
    "any": {**obj_schema(a=TEXT, b=TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "one": {**obj_schema(a=TEXT, b=TEXT), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "all": {"type": "string", "allOf": [{"minLength": 3}, {"pattern": "^x"}]},
    "no": {"type": "string", "not": {"enum": ["bad"]}},
    "emb": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "keep": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"k": obj_schema(z=TEXT)}},
    "deep": obj_schema(a=obj_schema(b=obj_schema(c={"type": "integer", "default": 3}), required=["b"])),
}
TYPE = "FieldValueTypeInvalid"
INVALID = "FieldValueInvalid"


def body(path, rule, shown):
    return f"Invalid value: {shown}: {path} in body {rule}"


REFUSED = [
    ({"i": 0}, "spec.i", INVALID, body("spec.i", "should be greater than or equal to 1", 0)),
    ({"i": 9}, "spec.i", INVALID, body("spec.i", "should be less than or equal to 5", 9)),
    ({"i": "x"}, "spec.i", TYPE, body("spec.i", 'must be of type integer: "string"', '"string"')),
    ({"i": True}, "spec.i", TYPE, body("spec.i", 'must be of type integer: "boolean"', '"boolean"')),
    ({"i": [1]}, "spec.i", TYPE, body("spec.i", 'must be of type integer: "array"', '"array"')),
    ({"i": 1.5}, "spec.i", TYPE, body("spec.i", 'must be of type integer: "number"', '"number"')),
    (
        {"x": 2**40},
        "<nil>",
        INVALID,
        'Invalid value: "": Checked value must be of type integer with format int32 in spec.x',
    ),
    ({"n": 0}, "spec.n", INVALID, body("spec.n", "should be greater than 0", 0)),
    ({"step": 4}, "spec.step", INVALID, body("spec.step", "should be a multiple of 3", 4)),
    ({"s": "a"}, "spec.s", INVALID, body("spec.s", "should be at least 2 chars long", '"a"')),
    ({"s": "abcdef"}, "spec.s", "FieldValueTooLong", "Too long: may not be more than 4 bytes"),
    ({"s": "xyz"}, "spec.s", INVALID, body("spec.s", "should match '^a.*$'", '"xyz"')),
    ({"s": "a\nb\n"}, "spec.s", INVALID, body("spec.s", "should match '^a.*$'", '"a\\nb\\n"')),
    ({"e": "z"}, "spec.e", "FieldValueNotSupported", 'Unsupported value: "z": supported values: "p", "q"'),
    ({"ie": 3}, "spec.ie", "FieldValueNotSupported", 'Unsupported value: 3: supported values: "1", "2"'),
    ({"l": []}, "spec.l", INVALID, body("spec.l", "should have at least 1 items", 0)),
    ({"l": ["a", "b", "c"]}, "spec.l", "FieldValueTooMany", "Too many: 3: must have at most 2 items"),
    ({"l": ["a", 1]}, "spec.l[1]", TYPE, body("spec.l[1]", 'must be of type string: "integer"', '"integer"')),
    ({"l": [None]}, "spec.l[0]", TYPE, body("spec.l[0]", 'must be of type string: "null"', '"null"')),
    ({"o": {}}, "spec.o", INVALID, body("spec.o", "should have at least 1 properties", 0)),
    ({"o": {"a": 1}}, "spec.o.a", TYPE, body("spec.o.a", 'must be of type string: "integer"', '"integer"')),
    ({"ios": True}, "spec.ios", TYPE, body("spec.ios", 'must be of type integer,string: "boolean"', '"boolean"')),
    ({"dt": "x"}, "spec.dt", TYPE, body("spec.dt", 'must be of type date-time: "x"', '"x"')),
    ({"ip": "::1"}, "spec.ip", TYPE, body("spec.ip", 'must be of type ipv4: "::1"', '"::1"')),
    ({"set": ["a", "b", "a"]}, "spec.set[2]", "FieldValueDuplicate", 'Duplicate value: "a"'),
    ({"map": [{"k": "a"}, {"k": "a"}]}, "spec.map[1]", "FieldValueDuplicate", 'Duplicate value: {"k":"a","p":7}'),
    ({"map": [{}]}, "spec.map[0].k", "FieldValueRequired", "Required value"),
    ({"map": ["x"]}, "spec.map[0]", INVALID, 'Invalid value: "x": must be an object for an array of list-type map'),
    ({"any": {}}, "<nil>", INVALID, 'Invalid value: "": "spec.any" must validate at least one schema (anyOf)'),
    ({"any": {}}, "spec.any.a", "FieldValueRequired", "Required value"),
    (
        {"one": {"a": "", "b": ""}},
        "<nil>",
        INVALID,
        'Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ),
    (
        {"all": "y"},
        "<nil>",
        INVALID,
        'Invalid value: "": "spec.all" must validate all the schemas (allOf). None validated',
    ),
    ({"no": "bad"}, "<nil>", INVALID, 'Invalid value: "": "spec.no" must not validate the schema (not)'),
    ({"emb": {}}, "spec.emb.apiVersion", "FieldValueRequired", "Required value"),
    ({"deep": {"a": {}}}, "spec.deep.a.b", "FieldValueRequired", "Required value"),
]
ACCEPTED = [
    ({}, {"nd": "dd"}),
    ({"i": 1.0}, {"i": 1, "nd": "dd"}),
    ({"i": None, "nd": None, "nu": None}, {"nd": "dd", "nu": None}),
    ({"ios": "50%"}, {"ios": "50%", "nd": "dd"}),
    ({"ios": 5}, {"ios": 5, "nd": "dd"}),
    ({"map": [{"k": "a"}, {"k": "a", "p": 8}]}, {"map": [{"k": "a", "p": 7}, {"k": "a", "p": 8}], "nd": "dd"}),
    ({"keep": {"a": {"b": 1}, "k": {"z": "1", "y": 2}}}, {"keep": {"a": {"b": 1}, "k": {"z": "1"}}, "nd": "dd"}),
    ({"deep": {"a": {"b": {}}}}, {"deep": {"a": {"b": {"c": 3}}}, "nd": "dd"}),
    (
        {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "bogus": 1}, "spec": {"z": 1}}},
        {"emb": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"z": 1}}, "nd": "dd"},
    ),
]


@pytest.fixture
async def service():
    async with opened() as backend:
        yield backend.service


@pytest.fixture
async def kind(service):
    return await define(service, crd("widgets", version(schema=obj_schema(spec=obj_schema(**SPEC)))))


async def test_what_the_schema_forbids_is_refused_with_kubernetes_words(service, kind):
    missing = []
    for spec, where, reason, message in REFUSED:
        with pytest.raises(Invalid) as caught:
            await service.create(kind, "default", widget(spec=spec), OPTIONS)
        cause = {"field": where, "reason": reason, "message": message}
        if cause not in caught.value.details["causes"]:
            missing.append((spec, cause, caught.value.details["causes"]))
    assert not missing


async def test_objects_are_pruned_and_completed(service, kind):
    for index, (spec, stored) in enumerate(ACCEPTED):
        made = value((await service.create(kind, "default", widget(f"w{index}", spec), OPTIONS)).object)
        assert made["spec"] == stored


@pytest.mark.parametrize(
    ("strictness", "warnings"),
    [
        ("Warn", ['unknown field "bogus"', 'unknown field "spec.deep.a.b.q"', 'unknown field "spec.z"']),
        ("Ignore", []),
    ],
)
async def test_unknown_fields(service, kind, strictness, warnings):
    body = widget(spec={"z": 1, "deep": {"a": {"b": {"q": 1}}}}, bogus=True)
    written = await service.create(kind, "default", body, WriteOptions(field_validation=strictness))
    assert written.warnings == warnings
    assert "bogus" not in value(written.object)


async def test_unknown_fields_are_errors_under_strict(service, kind):
    with pytest.raises(ApiError) as caught:
        await service.create(kind, "default", widget(spec={"z": 1}), STRICT)
    assert caught.value.code == 400
    assert caught.value.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.z"'
    )


async def test_several_errors_come_together(service, kind):
    with pytest.raises(Invalid) as caught:
        await service.create(kind, "default", widget("W", {"i": 9, "e": "z"}), OPTIONS)
    assert caught.value.message.startswith('Widget.example.com "W" is invalid: [metadata.name: Invalid value: "W"')
    fields = [cause["field"] for cause in caught.value.details["causes"]]
    assert fields == ["metadata.name", "spec.i", "spec.e"]


async def test_a_change_from_number_to_boolean_is_a_change(service):
    kind = await define(service, crd())
    before = value((await service.create(kind, "default", widget(spec={"a": 1}), OPTIONS)).object)
    patched = await service.patch(kind, "default", "w", {"spec": {"a": True}}, "merge", OPTIONS)
    after = value(patched.object)
    assert after["spec"] == {"a": True}
    assert after["metadata"]["generation"] == 2
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]


async def test_a_patch_that_changes_nothing_is_no_change(service, kind):
    before = value((await service.create(kind, "default", widget(spec={"i": 2}), OPTIONS)).object)
    patched = await service.patch(kind, "default", "w", {"spec": {"i": 2, "nd": None}}, "merge", OPTIONS)
    assert value(patched.object) == before


async def test_strategic_merge_is_not_for_user_defined_kinds(service, kind):
    with pytest.raises(ApiError) as caught:
        await service.patch(kind, "default", "absent", {"spec": {"i": 2}}, "strategic", OPTIONS)
    assert caught.value.code == 415
    assert "application/strategic-merge-patch+json" not in caught.value.message
