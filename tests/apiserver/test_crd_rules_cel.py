"""CEL rules of user-defined kinds: checked with an engine, told to be unchecked without one."""

from __future__ import annotations

import pytest

from support.backends import OPTIONS, opened, value
from support.definitions import CRDS, crd, define, obj_schema, version, widget
from unisono.api.structural import compile_schema
from unisono.api.structural.node import ABSENT
from unisono.apiserver.custom import cel
from unisono.errors import Invalid

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def ruled(rule, **more):
    return {"x-kubernetes-validations": [{"rule": rule, **more}]}


async def test_without_an_engine_definitions_are_accepted_with_a_warning(monkeypatch):
    monkeypatch.setattr(cel, "_engine", lambda: None)
    async with opened() as backend:
        definition = crd(
            "widgets", version(schema={**obj_schema(spec=obj_schema(a=NUMBER)), **ruled("self.spec.a > 1")})
        )
        written = await backend.service.create(CRDS, None, definition, OPTIONS)
        assert len(written.warnings) == 1
        assert "these rules are not checked" in written.warnings[0]
        kind = backend.service.context.custom.find("example.com/v1", "Widget")
        made = await backend.service.create(kind, "default", widget(spec={"a": 0}), OPTIONS)
        assert value(made.object)["spec"] == {"a": 0}


class TestWithAnEngine:
    @pytest.fixture(autouse=True)
    def engine(self):
        pytest.importorskip("cel", reason="the extra cel is not installed")

    @pytest.mark.parametrize(
        ("schema", "good", "bad", "message"),
        [
            (
                obj_schema(a=NUMBER, b=NUMBER) | ruled("self.a <= self.b"),
                {"a": 1, "b": 2},
                {"a": 2, "b": 1},
                "<nil>: Invalid value: failed rule: self.a <= self.b",
            ),
            (
                obj_schema(a=NUMBER | ruled("self > 0", message="too few")),
                {"a": 1},
                {"a": 0},
                "a: Invalid value: 0: too few",
            ),
            (
                obj_schema(a=TEXT | ruled("self.size() < 3", messageExpression="'has ' + string(self.size())")),
                {"a": "ab"},
                {"a": "abcd"},
                'a: Invalid value: "abcd": has 4',
            ),
            (
                obj_schema(a=TEXT, b=TEXT)
                | ruled("has(self.a) || has(self.b)", reason="FieldValueRequired", fieldPath=".a"),
                {"b": ""},
                {},
                "a: Required value: failed rule: has(self.a) || has(self.b)",
            ),
            (
                obj_schema(l={"type": "array", "items": NUMBER | ruled("self % 2 == 0")}),
                {"l": [2, 4]},
                {"l": [2, 3]},
                "l[1]: Invalid value: 3: failed rule: self % 2 == 0",
            ),
            (
                obj_schema(m={"type": "object", "additionalProperties": NUMBER | ruled("self > 0")}),
                {"m": {"x": 1}},
                {"m": {"x": 0}},
                "m[x]: Invalid value: 0: failed rule: self > 0",
            ),
            (
                obj_schema(namespace=TEXT) | ruled("self.__namespace__ != ''"),
                {"namespace": "a"},
                {"namespace": ""},
                "<nil>: Invalid value: failed rule: self.__namespace__ != ''",
            ),
            (
                obj_schema(n={"type": "number"}) | ruled("self.n * 2.0 < 5.0"),
                {"n": 2},
                {"n": 3},
                "<nil>: Invalid value: failed rule: self.n * 2.0 < 5.0",
            ),
            (
                obj_schema(t={"type": "string", "format": "date-time"})
                | ruled("self.t > timestamp('2020-01-01T00:00:00Z')"),
                {"t": "2021-01-01T00:00:00Z"},
                {"t": "2019-01-01T00:00:00Z"},
                "<nil>: Invalid value: failed rule: self.t > timestamp('2020-01-01T00:00:00Z')",
            ),
            (
                obj_schema(q=TEXT | ruled("quantity(self).isLessThan(quantity('1Gi'))")),
                {"q": "512Mi"},
                {"q": "2Gi"},
                "q: Invalid value: \"2Gi\": failed rule: quantity(self).isLessThan(quantity('1Gi'))",
            ),
            (
                obj_schema(u=TEXT | ruled("isURL(self) && url(self).getHost() == 'a.b'")),
                {"u": "https://a.b/c"},
                {"u": "https://x/"},
                "u: Invalid value: \"https://x/\": failed rule: isURL(self) && url(self).getHost() == 'a.b'",
            ),
            (
                obj_schema(l={"type": "array", "items": NUMBER} | ruled("self.sum() < 5 && self.isSorted()")),
                {"l": [1, 2]},
                {"l": [2, 1]},
                "l: Invalid value: failed rule: self.sum() < 5 && self.isSorted()",
            ),
            (
                obj_schema(a=NUMBER) | ruled("self.a > 0"),
                {"a": 1},
                {},
                '<nil>: Invalid value: "object": no such key: a evaluating rule: self.a > 0',
            ),
        ],
    )
    def test_rules(self, schema, good, bad, message):
        node = compile_schema(schema)
        assert cel.check_rules(node, good) == []
        assert [error.message() for error in cel.check_rules(node, bad)] == [message]

    def test_transition_rules_need_an_old_value(self):
        node = compile_schema(obj_schema(a=NUMBER | ruled("self >= oldSelf", reason="FieldValueForbidden")))
        assert cel.check_rules(node, {"a": 1}) == []
        assert cel.check_rules(node, {"a": 1}, {}) == []
        assert cel.check_rules(node, {"a": 2}, {"a": 1}) == []
        errors = cel.check_rules(node, {"a": 1}, {"a": 2})
        assert [error.message() for error in errors] == ["a: Forbidden: failed rule: self >= oldSelf"]

    def test_an_old_value_may_be_optional(self):
        rule = ruled("!oldSelf.hasValue() || oldSelf.value() == self", optionalOldSelf=True)
        node = compile_schema(obj_schema(a=NUMBER | rule))
        assert cel.check_rules(node, {"a": 1}) == []
        assert cel.check_rules(node, {"a": 1}, {"a": 1}) == []
        assert len(cel.check_rules(node, {"a": 1}, {"a": 2})) == 1

    def test_what_did_not_change_is_not_checked_again(self):
        node = compile_schema(obj_schema(a=NUMBER | ruled("self > 5"), b=TEXT))
        assert cel.check_rules(node, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}) == []
        assert len(cel.check_rules(node, {"a": 1}, ABSENT)) == 1

    def test_items_of_map_lists_are_compared_by_their_key(self):
        items = obj_schema(k=TEXT, v=NUMBER | ruled("self == oldSelf"))
        extensions = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        node = compile_schema(obj_schema(l={"type": "array", "items": items, **extensions}))
        old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
        assert cel.check_rules(node, {"l": [{"k": "b", "v": 2}, {"k": "c", "v": 9}]}, old) == []
        assert [error.path for error in cel.check_rules(node, {"l": [{"k": "b", "v": 3}]}, old)] == ["l[0].v"]

    async def test_rules_hold_for_writes(self):
        async with opened() as backend:
            spec = obj_schema(a=NUMBER, b=NUMBER) | ruled("self.a <= self.b", message="a must not exceed b")
            kind = await define(backend.service, crd("widgets", version(schema=obj_schema(spec=spec))))
            with pytest.raises(Invalid, match="spec: Invalid value: a must not exceed b"):
                await backend.service.create(kind, "default", widget(spec={"a": 2, "b": 1}), OPTIONS)
            with pytest.raises(Invalid, match="some validation rules were not checked because the object was invalid"):
                await backend.service.create(kind, "default", widget(spec={"a": "x", "b": 1}), OPTIONS)
            await backend.service.create(kind, "default", widget(spec={"a": 1, "b": 1}), OPTIONS)

    async def test_rules_that_cannot_be_read_are_errors_of_the_definition(self):
        async with opened() as backend:
            definition = crd("widgets", version(schema=obj_schema(spec=obj_schema(a=NUMBER | ruled("self > ")))))
            with pytest.raises(Invalid, match="compilation failed") as caught:
                await backend.service.create(CRDS, None, definition, OPTIONS)
            path = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[a]"
            assert caught.value.details["causes"][0]["field"] == f"{path}.x-kubernetes-validations[0].rule"

    async def test_rules_that_the_engine_lacks_are_told(self):
        async with opened() as backend:
            spec = obj_schema(a=NUMBER) | ruled("self.?a.orValue(1) == 1")
            definition = crd("widgets", version(schema=obj_schema(spec=spec)))
            written = await backend.service.create(CRDS, None, definition, OPTIONS)
            assert written.warnings == [
                "x-kubernetes-validations: this rule is not checked, because the CEL engine has no optional field "
                "access: self.?a.orValue(1) == 1"
            ]
