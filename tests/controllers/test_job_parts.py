from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.times import format_duration, parse_duration
from unisono.controllers.job import view
from unisono.controllers.job.plugins.base import read_flags
from unisono.controllers.objects import PATIENCE_SECONDS, Expectations, contains


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0), ("-2s", -2), ("+3s", 3), (".5m", 30)],
)
def test_durations_of_go(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1d", "--1s", "5m!", "-"])
def test_no_durations(text):
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)


@given(st.integers(0, 10**7))
def test_durations_round_trip(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


json = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=2), json, max_size=4)


@given(objects, objects)
def test_contains_ignores_what_is_added(some, more):
    assert contains({**some, "added": more}, {k: v for k, v in some.items() if k != "added"})


@pytest.mark.parametrize(
    ("arguments", "port", "flag"),
    [
        ([], "1", "false"),
        (["--port=2", "-flag=true"], "2", "true"),
        (["--port", "3", "--flag"], "3", "true"),
        (["--flag", "--port=4"], "4", "true"),
        (["--unknown=5", "stray", "--port=6"], "6", "false"),
    ],
)
def test_flags(arguments, port, flag):
    assert read_flags(arguments, {"port": "1", "flag": "false"}) == {"port": port, "flag": flag}


def test_expectations_end_when_seen_or_when_patience_does():
    waiting = Expectations()
    waiting.expect("u", "a", 0)
    waiting.expect("u", "b", 10)
    assert waiting.pending("u", 11) == {"a", "b"}
    waiting.settle("u", "a")
    assert waiting.pending("u", 11) == {"b"}
    assert waiting.pending("u", 10 + PATIENCE_SECONDS) == frozenset()
    waiting.settle("u", "never heard of")
    waiting.forget("u")
    assert waiting.pending("u", 11) == frozenset()


def test_every_phase_has_a_row_and_every_row_leads_to_a_phase():
    known = view.ACTIVE | set(view.KILLING) | view.STOPPED
    assert set(view.TRANSITIONS) == known
    for row in view.TRANSITIONS.values():
        assert {change.to for change in row.values()} <= known
    assert all(not view.TRANSITIONS[phase] for phase in view.FINISHED)
