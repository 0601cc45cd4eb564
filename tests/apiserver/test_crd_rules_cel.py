"""CEL rules of user-defined kinds: compiled and estimated with the definition, counted when they run."""

from __future__ import annotations

import pytest

from support.backends import OPTIONS, opened
from support.definitions import CRDS, crd, define, obj_schema, version, widget
from unisono.api.cel import Budget
from unisono.api.structural import compile_schema
from unisono.api.structural.node import ABSENT
from unisono.apiserver.custom import rules
from unisono.errors import Invalid

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def ruled(rule, **more):
    return {"x-kubernetes-validations": [{"rule": rule, **more}]}


LIST = obj_schema(l={"type": "array", "items": NUMBER})
PAIRS = "self.l.all(a, self.l.all(b, a + b >= 0))"


def specified(schema):
    return crd("widgets", version(schema=obj_schema(spec=schema)))


class TestRules:
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
        assert rules.check_rules(node, good) == []
        assert [error.message() for error in rules.check_rules(node, bad)] == [message]

    def test_transition_rules_need_an_old_value(self):
        node = compile_schema(obj_schema(a=NUMBER | ruled("self >= oldSelf", reason="FieldValueForbidden")))
        assert rules.check_rules(node, {"a": 1}) == []
        assert rules.check_rules(node, {"a": 1}, {}) == []
        assert rules.check_rules(node, {"a": 2}, {"a": 1}) == []
        errors = rules.check_rules(node, {"a": 1}, {"a": 2})
        assert [error.message() for error in errors] == ["a: Forbidden: failed rule: self >= oldSelf"]

    def test_an_old_value_may_be_optional(self):
        rule = ruled("!oldSelf.hasValue() || oldSelf.value() == self", optionalOldSelf=True)
        node = compile_schema(obj_schema(a=NUMBER | rule))
        assert rules.check_rules(node, {"a": 1}) == []
        assert rules.check_rules(node, {"a": 1}, {"a": 1}) == []
        assert len(rules.check_rules(node, {"a": 1}, {"a": 2})) == 1

    def test_what_did_not_change_is_not_checked_again(self):
        node = compile_schema(obj_schema(a=NUMBER | ruled("self > 5"), b=TEXT))
        assert rules.check_rules(node, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}) == []
        assert len(rules.check_rules(node, {"a": 1}, ABSENT)) == 1

    def test_items_of_map_lists_are_compared_by_their_key(self):
        items = obj_schema(k=TEXT, v=NUMBER | ruled("self == oldSelf"))
        extensions = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        node = compile_schema(obj_schema(l={"type": "array", "items": items, **extensions}))
        old = {"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}
        assert rules.check_rules(node, {"l": [{"k": "b", "v": 2}, {"k": "c", "v": 9}]}, old) == []
        assert [error.path for error in rules.check_rules(node, {"l": [{"k": "b", "v": 3}]}, old)] == ["l[0].v"]

    async def test_rules_hold_for_writes(self):
        async with opened() as backend:
            spec = obj_schema(a=NUMBER, b=NUMBER) | ruled("self.a <= self.b", message="a must not exceed b")
            kind = await define(backend.service, specified(spec))
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

    @pytest.mark.parametrize("rule", ["self.?a.orValue(1) == 1", "!has(self.a) || self.a in [1]"])
    async def test_absent_fields(self, rule):
        async with opened() as backend:
            kind = await define(backend.service, specified(obj_schema(a=NUMBER) | ruled(rule)))
            await backend.service.create(kind, "default", widget("a", spec={}), OPTIONS)
            with pytest.raises(Invalid, match="failed rule"):
                await backend.service.create(kind, "default", widget("b", spec={"a": 2}), OPTIONS)

    @pytest.mark.parametrize(
        ("schema", "why"),
        [
            (
                obj_schema(l={"type": "array", "items": NUMBER})
                | ruled("self.l.all(a, self.l.all(b, a != b || a == b))"),
                "100x",
            ),
            (obj_schema(l={"type": "array", "items": TEXT | ruled("self.matches('^a+$')")}), "100x"),
            (obj_schema(s=TEXT, t=TEXT) | ruled("self.s.contains(self.t)"), "100x"),
            (obj_schema(a=NUMBER) | ruled("self.a > nothing"), "undeclared reference to 'nothing'"),
            (obj_schema(a=NUMBER) | ruled("(" * 70 + "self.a" + ")" * 70 + " > 0"), "more than 64 levels deep"),
            (obj_schema(a=NUMBER) | ruled(" && ".join(["self.a > 0"] * 1000)), "more than 10240 characters"),
        ],
    )
    async def test_rules_that_are_too_expensive_are_errors_of_the_definition(self, schema, why):
        async with opened() as backend:
            with pytest.raises(Invalid, match=why):
                await backend.service.create(CRDS, None, specified(schema), OPTIONS)

    async def test_bounds_make_rules_affordable(self):
        spec = obj_schema(
            l={"type": "array", "maxItems": 100, "items": TEXT | {"maxLength": 50} | ruled("self.matches('^a+$')")}
        )
        async with opened() as backend:
            await backend.service.create(CRDS, None, specified(spec), OPTIONS)

    def test_a_rule_is_cut_off_where_it_costs_too_much(self):
        node = compile_schema(LIST | ruled(PAIRS))
        assert rules.check_rules(node, {"l": [1] * 50}) == []
        # Without a limit of time, which a slow machine would reach before.
        errors = rules.check_rules(node, {"l": [1] * 2000}, left=Budget())
        assert [error.message() for error in errors] == [
            '<nil>: Invalid value: "object": operation cancelled: actual cost limit exceeded'
        ]

    def test_all_rules_of_an_object_have_one_budget(self):
        node = compile_schema(obj_schema(l={"type": "array", "items": NUMBER | ruled("self > 0")}))
        left = Budget(100)
        errors = rules.check_rules(node, {"l": [1] * 1000}, left=left)
        assert "running out of cost budget, no further rules will be run" in errors[-1].message()
        assert left.left == 0

    def test_rules_end_when_their_time_is_up(self):
        node = compile_schema(LIST | ruled(PAIRS))
        ticks = iter(range(100))
        errors = rules.check_rules(node, {"l": [1] * 200}, left=Budget(clock=lambda: float(next(ticks)), seconds=1.5))
        assert "time exceeding the limit" in errors[-1].message()

    def test_a_stored_rule_that_cannot_be_compiled_refuses(self):
        node = compile_schema(obj_schema(a=NUMBER) | ruled("self.a > "))
        assert "rule compile error" in rules.check_rules(node, {"a": 1})[0].message()
