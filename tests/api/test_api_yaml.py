"""Manifests are read as kubectl reads them (recorded from kubectl 1.32)."""

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api import yaml
from unisono.api.yaml import Document, expand_lists, load_all
from unisono.errors import ConfigError


def one(text: str) -> Any:
    (document,) = load_all(text)
    return document.value


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        *((word, True) for word in ("yes", "Yes", "YES", "on", "y", "Y", "true", "TRUE")),
        *((word, False) for word in ("no", "No", "off", "n", "N", "false", "FALSE")),
        *((word, word) for word in ("tRUE", "yEs", "oN", "nope")),
        ("0o14", 12),
        ("012", 10),
        ("08", 8),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("1_000", 1000),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("0b101", 5),
        ("+5", 5),
        ("12:30:45", "12:30:45"),
        ("2026-11-20", "2026-11-20"),
        ("2026-11-20T16:33:50Z", "2026-11-20T16:33:50Z"),
        ("~", None),
        ("null", None),
        ("", None),
        ("100m", "100m"),
        ("1.2.3", "1.2.3"),
        ('"yes"', "yes"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ('!!int "5"', 5),
        ("9223372036854775807", 2**63 - 1),
        ("-", [None]),
    ],
)
def test_scalars(scalar: str, value: Any) -> None:
    found = one(f"a: {scalar}\n") if scalar != "-" else one("a:\n-\n")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


@pytest.mark.parametrize(("key", "name"), [("y", "true"), ("n", "false"), ("5", "5"), ("1e3", "1000"), ('"y"', "y")])
def test_keys_become_strings(key: str, name: str) -> None:
    assert one(f"{key}: 1\n") == {name: 1}


def test_documents_know_their_line() -> None:
    documents = load_all("# head\n---\na: 1\n---\n---\nb: 2\n")
    assert documents == [Document({"a": 1}, 3), Document({"b": 2}, 6)]


def test_merge_keys_and_anchors() -> None:
    text = "base: &base {a: 1, b: 2}\nuse:\n  <<: *base\n  b: 3\n"
    assert one(text)["use"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 'f.yaml:3: key "a" is given twice: keep one of them'),
        ("y: 1\ntrue: 2\n", 'f.yaml:2: key "true" is given twice: keep one of them'),
        ("a:\n  b: [1\nc: 2\n", "f.yaml:3: did not find expected"),
        ("a: .inf\n", "f.yaml:1: .inf has no JSON value"),
        ("a: 1\nb: .NaN\n", "f.yaml:2: .NaN has no JSON value"),
        ("a: 1e999\n", "f.yaml:1: 1e999 is too large"),
        ("a: !custom x\n", "f.yaml:1: tag !custom is not known: remove it"),
        ("a: !!binary aGk=\n", "f.yaml:1: tag"),
        ("a: !!python/object:os.system x\n", "f.yaml:1: tag"),
        ("a: *nobody\n", "f.yaml:1: found undefined alias"),
        ("? [1]\n: 2\n", "f.yaml:1: a key must be text"),
        ("~: 2\n", "f.yaml:1: a key must be text"),
        ("a: \x01\n", "f.yaml:1: the text is not YAML"),
        ('{"a": 1,\n "a": 2}', 'f.yaml:2: key "a" is given twice: keep one of them'),
        ('{"a": 1,\n "b" 2}', "f.yaml:2: "),
    ],
)
def test_errors_name_file_and_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_all(text, "f.yaml")
    assert str(caught.value).startswith(message)


def test_bytes() -> None:
    assert load_all(b"\xef\xbb\xbfa: \xc3\xbc\n")[0].value == {"a": "ü"}
    with pytest.raises(ConfigError, match=r"f:2: the file is not UTF-8 text"):
        load_all(b"a: 1\nb: \xff\n", "f")


def test_json_streams() -> None:
    assert load_all('{"a": [1.5, true, null]}\n{"b": "yes"}\n') == [
        Document({"a": [1.5, True, None]}, 1),
        Document({"b": "yes"}, 2),
    ]


def test_aliases_that_explode_are_refused() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="aliases expand"):
        load_all("\n".join(lines))


@pytest.mark.parametrize("text", ["[" * 20000, "{a: " * 20000, "&a [*a]"])
def test_bottomless_text_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError):
        load_all(text)


def test_lists_are_expanded() -> None:
    inner = {"kind": "PodList", "items": [{"kind": "Pod"}, None]}
    documents = [Document({"kind": "List", "items": [inner, {"kind": "Queue"}]}, 4), Document({"kind": "Job"}, 9)]
    assert expand_lists(documents) == [
        Document({"kind": "Pod"}, 4),
        Document({"kind": "Queue"}, 4),
        Document({"kind": "Job"}, 9),
    ]
    assert expand_lists([Document("text", 1)]) == [Document("text", 1)]


def _is_json(value: Any) -> bool:
    match value:
        case dict():
            return all(isinstance(key, str) and _is_json(each) for key, each in value.items())
        case list():
            return all(_is_json(each) for each in value)
        case float():
            return math.isfinite(value)
        case _:
            return value is None or isinstance(value, str | int | bool)


@given(st.text(alphabet=st.sampled_from(list("ab:-[]{}&*!?|>'\"#%, \n\t019.ex~yn<")), max_size=40))
def test_any_text_is_json_values_or_one_error(text: str) -> None:
    try:
        documents = load_all(text, "f")
    except ConfigError:
        return
    assert all(_is_json(document.value) for document in documents)


@given(st.text(min_size=1, max_size=12))
def test_resolve_never_fails_otherwise(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert _is_json(yaml.resolve(text))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000 + "]" * 50_000,
        "x: " + "{a: " * 50_000,
        "- " * 50_000 + "x",
        "? " * 50_000 + "x",
        '{"a":' * 50_000 + "1" + "}" * 50_000,
        '["]",' * 50_000,
        "\n".join(" " * level + "a:" for level in range(1_500)),
    ],
    ids=["lists", "maps", "entries", "keys", "json", "brackets in strings", "indented"],
)
def test_what_is_nested_too_deeply_is_refused_before_it_costs_anything(text: str) -> None:
    """libyaml's time grows with the square of the depth, and its recursion ends the process."""
    with pytest.raises(ConfigError, match="deep"):
        load_all(text)


@pytest.mark.parametrize("word", ["\\e[31m", "[{"])
def test_brackets_within_strings_nest_nothing(word: str) -> None:
    assert "[" in one(f'a: "{word * 2_000}"')["a"]
    assert one("[[]," * 400 + "1" + "]" * 400)


def test_merges_of_merges_are_refused_before_they_fill_the_memory() -> None:
    lines = [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}], z{i}: 1}}" for i in range(1, 12)]
    with pytest.raises(ConfigError, match="merge keys expand"):
        load_all("\n".join(["a0: &a0 {x: 1, w: 2}", *lines]))
    assert one("a: &a {x: 1, w: 2}\nb: {<<: [*a, *a], x: 3}")["b"] == {"x": 3, "w": 2}


def test_a_merge_with_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_all("a: &a {<<: *a}")
