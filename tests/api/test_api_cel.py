"""CEL: what expressions answer, what is refused, and that work is counted and ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.cel import Budget, CompileError, CostError, EvaluationError, compile_expression
from unisono.api.cel.values import EXPRESSION_LIMIT

NAMES = frozenset(("self", "x"))
VALUES = {"self": {"a": 1, "b": "text", "l": [3, 1, 2], "m": {"k": 2.5}}, "x": list(range(400))}


def value(text, limit=10_000_000):
    return compile_expression(text, NAMES).evaluate(VALUES, Budget(limit))


ANSWERS = {
    "1 + 2 * 3": 7,
    "-9223372036854775808": -(2**63),
    "5 % -3": 2,
    "-5 / 2": -2,
    "2 - -1": 3,
    "0x1F": 31,
    "1e3": 1000.0,
    "1u + 2u == 3": True,
    "1 == 1.0": True,
    "'a' == 1": False,
    "1.5 < 2": True,
    "!true || true": True,
    "self.a > 0 ? 'yes' : 'no'": "yes",
    "self.m.k": 2.5,
    "self['b']": "text",
    "has(self.c)": False,
    "self.?c.orValue(7)": 7,
    "self[?'m'].?k.hasValue()": True,
    "optional.of(3).optMap(v, v + 1).value()": 4,
    "[?optional.none(), 1]": [1],
    "self.l.map(i, i * 2)": [6, 2, 4],
    "self.l.map(i, i > 1, i * 2)": [6, 4],
    "self.l.filter(i, i > 1).size()": 2,
    "self.l.exists(i, i / 0 == 1 || i == 2)": True,
    "self.l.exists_one(i, i == 2)": True,
    "self.l.all(i, v, i < 3 && v > 0)": True,
    "self.m.all(k, k == 'k')": True,
    "self.m.transformMap(k, v, v * 2.0)": {"k": 5.0},
    "cel.bind(own, self.l, own[0] + own[1])": 4,
    "self.l.isSorted() || self.l.sum() == 6": True,
    "self.l.max() - self.l.min()": 2,
    "2 in self.l && 'k' in self.m": True,
    "'a,b'.split(',').join('-')": "a-b",
    "'AbC'.lowerAscii() + 'ü'.upperAscii()": "abcü",
    "'text'.substring(1, 3)": "ex",
    "'%s has %d of %.1f'.format([self.b, 3, 2.0])": "text has 3 of 2.0",
    "'abc'.matches('^a.c$') && !matches('abc', '^b')": True,
    "'a1b22'.findAll('[0-9]+')": ["1", "22"],
    r"r'\d' + '\u00e9' + '''a'b'''": r"\déa'b",
    "int('12') + int(2.9) + size('abc')": 17,
    "string(1.5) + string(true) + string(2)": "1.5true2",
    "type(1) == int && type('') != int": True,
    "quantity('1Gi').add(quantity('1Gi')).compareTo(quantity('2048Mi'))": 0,
    "isQuantity('ten') || quantity('1.5').isInteger()": False,
    "semver('1.2.3-a').isLessThan(semver('1.2.3'))": True,
    "url('https://a.b:1/c?d=e').getPort() + url('https://a.b/c').getHost()": "1a.b",
    "ip('::1').isLoopback() && cidr('10.0.0.0/8').containsIP('10.1.2.3')": True,
    "cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16'))": True,
    "sets.contains([1, 2], [1]) && !sets.intersects([1], [2])": True,
    "timestamp('2026-01-31T23:00:00Z') + duration('2h') == timestamp('2026-02-01T01:00:00Z')": True,
    "timestamp('2026-01-31T23:00:00Z').getDayOfMonth('+02:00')": 0,
    "duration('1h30m').getMinutes()": 90,
    " && ".join(["true"] * 1000): True,
}


@pytest.mark.parametrize(("text", "answer"), ANSWERS.items(), ids=[text[:60] for text in ANSWERS])
def test_answers(text, answer):
    found = value(text)
    assert found == answer
    assert isinstance(found, bool) is isinstance(answer, bool)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9223372036854775807 + 1", "integer overflow"),
        ("1 / 0", "division by zero"),
        ("self.l[9]", "index out of bounds: 9"),
        ("self.nothing", "no such key: nothing"),
        ("self.b > 1", "no such overload"),
        ("1 + 1.0", "no such overload"),
        ("'a' ? 1 : 2", "no such overload"),
        ("self.l.map(i, self.b - i)", "no such overload"),
        ("false || 1", "no such overload"),
        ("'a'.matches('(')", "error parsing regexp"),
        ("'%.999f'.format([1.0])", "precision"),
        ("int('" + "9" * 64 + "')", "integer overflow"),
        ("{'a': 1, 'a': 2}", "repeated key"),
        ("timestamp('soon')", "timestamp"),
    ],
)
def test_what_has_no_value_is_an_error(text, why):
    with pytest.raises(EvaluationError, match=why.replace("(", r"\(")):
        value(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "(1",
        "'open",
        "y",
        "shout(1)",
        "'a'.shout()",
        "has(self)",
        "self.l.all(1, true)",
        "size()",
        "9223372036854775808",
        "a.b{}",
        "if",
        r"'\q'",
        "1" * 100,
        "(" * 65 + "1" + ")" * 65,
        "+".join(["1"] * 100),
        "self" + ".a" * 100,
        "!(" * 60 + "true" + ")" * 60 + "[" * 10,
        "[" * 3000,
        "'" + "x" * 11_000 + "'",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(CompileError):
        compile_expression(text, NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "x.all(a, x.all(b, x.all(c, a + b + c >= 0)))",
        "x.map(a, x.map(b, x.map(c, c))).size() > 0",
        "cel.bind(y, x.map(a, [x, x, x]), y == y && y == y && y == y)",
        "cel.bind(a, 'x'.replace('', '0123456789'), " * 2 + "x.all(i, x.all(j, (a + a + a + a).contains(a)))" + ")" * 2,
        "x.exists(a, x.map(b, 'abcdefghij').join('').matches('(a?b?c?){50}z'))",
        "x.all(a, x.all(b, b in x))",
        "x.all(a, sets.contains(x, x))",
        "x.all(a, x.distinct().size() > 0)",
    ],
)
def test_work_is_counted_and_cut_off(text):
    budget = Budget()
    with pytest.raises(CostError):
        compile_expression(text, NAMES).evaluate(VALUES, budget)
    assert 10_000_000 - budget.left >= EXPRESSION_LIMIT


def test_no_operator_absorbs_the_end_of_the_budget():
    with pytest.raises(CostError, match="running out of cost budget"):
        value("x.all(a, true) || true", limit=100)


def test_a_name_that_a_macro_binds_ends_with_it():
    assert value("self.l.exists(self, self.nothing == 1) || self.a == 1")


@given(st.text(alphabet="selfx.ab()[]{}'\"0123456789+-*/%<>=!&|?:, ", max_size=60))
def test_any_text_has_an_answer_or_a_named_error(text):
    try:
        value(text, limit=100_000)
    except (CompileError, EvaluationError, CostError) as error:
        assert len(str(error)) < 500
