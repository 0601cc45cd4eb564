"""Patterns that users write: Go's dialect and words for faults, run in linear time."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import unisono
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.structural.values import find_check

SOURCES = Path(unisono.__file__).parent
# Functions that make patterns from texts of their callers, all of which are written in this source.
OWN_TEXTS = {
    ("api/names.py", "_check"),
    ("api/structural/values.py", "_matches"),
    ("api/validation/meta.py", "_pattern"),
}
USERS = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<!`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a\\", "trailing backslash at end of expression"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        (r"a\Z", r"invalid escape sequence: `\Z`"),
        ("a" * 20_000, "expression too large"),
    ],
)
def test_what_go_refuses_is_refused_in_its_words(text, said):
    with pytest.raises(PatternError) as caught:
        compile_pattern(text)
    assert str(caught.value).startswith(f"error parsing regexp: {said}")


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        (r"^\p{Greek}+$", "αβγ", True),
        (r"^\pL$", "1", False),
        ("^(?P<year>[0-9]{4})$", "2026", True),
        (r"^\Q\C\E$", r"\C", True),
        ("(?i)^ABC$", "abc", True),
        ("(?U)a+", "aaa", True),
        ("^[[:^alpha:]]$", "1", True),
        ("^.$", "ü", True),
        ("^.$", "\n", False),
    ],
)
def test_what_go_takes_is_taken(text, value, found):
    assert compile_pattern(text).found_in(value) is found


@pytest.mark.parametrize(
    "text", ["^(a+)+$", "^(a|aa)+$", "^(a|a?)+$", "(.*,){11}P", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
def test_what_makes_other_engines_backtrack_ends(text):
    assert not compile_pattern(text).found_in("a" * 10_000 + "!")


def test_a_large_expression_on_a_large_text_is_refused():
    with pytest.raises(PatternError, match="the text of 1000000 characters is too long for the regular expression"):
        compile_pattern("(a?){999}").found_in("a" * 1_000_000)


def test_all_parts_that_match():
    assert list(compile_pattern("[0-9]+").all_in("a1b22c333")) == ["1", "22", "333"]


def test_no_module_gives_texts_of_users_to_another_engine():
    found = {each for path in SOURCES.rglob("*.py") for each in _foreign_patterns(path)}
    assert found == OWN_TEXTS


def _foreign_patterns(path):
    """Functions of a file that call ``re`` with a pattern that is not written where it stands."""
    source = path.read_text()
    if not re.search(rf"\bre\.({'|'.join(USERS)})\b", source):
        return
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in ast.walk(function):
                if _is_call_of_re(call) and not _is_constant(call.args[0]):
                    yield path.relative_to(SOURCES).as_posix(), function.name


def _is_call_of_re(node):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in USERS
    )


def _is_constant(node):
    return isinstance(node, ast.Constant | ast.JoinedStr) or (isinstance(node, ast.Name) and node.id.isupper())


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("1h30m", True),
        ("-1.5s", True),
        ("3 days", True),
        ("1" * 300_000 + " weeks", True),
        ("1" * 300_000, False),
        ("1." * 300_000, False),
        ("1" + " " * 300_000, False),
        ("1s" * 300_000 + "!", True),  # Kubernetes looks for a duration anywhere in the text
    ],
    ids=["go", "negative", "words", "digits and a unit", "digits", "points", "blanks", "parts"],
)
def test_durations_are_read_in_one_way_only(text, valid):
    # Read in more than one way, the long ones would take minutes: the time grows with the square of the length.
    check = find_check("duration")
    assert check is not None
    assert check(text) is valid
