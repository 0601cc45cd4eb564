"""Differences of JSON documents and the patches that carry them: exact, and without harm to what is patched."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.documents import (
    Members,
    apply_json_patch,
    apply_merge_patch,
    carry_over,
    clone,
    json_diff,
    merge_diff,
    merge_named,
    same,
)

scalars = st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3)


def documents(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
        max_leaves=12,
    )
    return st.dictionaries(st.text("ab/~", max_size=2), values, max_size=4)


any_document = documents(scalars | st.none())
without_null = documents(scalars)


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@given(any_document, any_document)
def test_values_are_the_same_when_their_json_is(one, other):
    assert same(one, other) == (text(one) == text(other))
    assert (one in Members([other])) == same(one, other)
    assert same(one, clone(one))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (True, 1, False),
        (0, False, False),
        (1, 1.0, True),
        ([True], [1], False),
        ({"a": {"b": True}}, {"a": {"b": 1}}, False),
        ({"a": None}, {}, False),
        ({"a": None}, {"b": None}, False),
        (None, False, False),
        ("1", 1, False),
        ((1, 2), [1, 2], True),
    ],
)
def test_equality(one, other, equal):
    assert same(one, other) is equal
    assert same(other, one) is equal
    assert (json_diff({"x": one}, {"x": other}) == []) is equal
    if one is not None and other is not None and not isinstance(one, dict):
        assert (merge_diff({"x": one}, {"x": other}) == {}) is equal


@given(any_document, any_document)
def test_a_json_patch_leads_from_one_document_to_the_other(old, new):
    before = copy.deepcopy((old, new))
    assert text(apply_json_patch(old, json_diff(old, new))) == text(new)
    assert (json_diff(old, new) == []) == same(old, new)
    assert (old, new) == before


@given(without_null, without_null)
def test_a_merge_patch_leads_from_one_document_to_the_other(old, new):
    before = copy.deepcopy((old, new))
    patch = merge_diff(old, new)
    assert text(apply_merge_patch(old, patch)) == text(new)
    assert (patch == {}) == same(old, new)
    assert (old, new) == before


@given(any_document, any_document)
def test_a_merge_patch_has_an_end_where_documents_have_null(old, new):
    """A controller that patches until nothing is to be done must not patch for ever."""
    assert merge_diff(apply_merge_patch(old, merge_diff(old, new)), new) == {}


@given(any_document, any_document, any_document)
def test_what_is_carried_over_leaves_the_rest(base, before, after):
    kept = copy.deepcopy((base, before, after))
    assert same(carry_over(base, before, before), base)
    assert same(carry_over(before, before, after), after)
    carry_over(base, before, after)
    assert (base, before, after) == kept


@given(any_document, without_null)
def test_lists_without_names_merge_as_in_a_merge_patch(base, patch):
    assert same(merge_named(base, patch), apply_merge_patch(base, patch))


MOUNTS = [{"name": "data", "mountPath": "/in"}, {"name": "data", "mountPath": "/out"}]


@pytest.mark.parametrize(
    ("field", "base", "patch", "merged"),
    [
        (
            "containers",
            [{"name": "a", "image": "1", "tty": True}, {"name": "b"}],
            [{"name": "c"}, {"name": "a", "image": "2"}],
            [{"name": "a", "image": "2", "tty": True}, {"name": "b"}, {"name": "c"}],
        ),
        ("containers", [{"name": "a", "image": "1"}], [{"name": "a", "image": None}], [{"name": "a"}]),
        ("containers", [{"image": "1"}], [{"name": "a"}], [{"name": "a"}]),
        # One volume may be mounted twice: the path is what names a mount.
        ("volumeMounts", MOUNTS, [{"name": "more", "mountPath": "/out"}], [MOUNTS[0], MOUNTS[1] | {"name": "more"}]),
        ("volumeMounts", [], MOUNTS, MOUNTS),
        ("ports", [{"containerPort": 1}], [{"containerPort": 1, "name": "x"}], [{"containerPort": 1, "name": "x"}]),
        ("volumes", [{"mountPath": "/a"}], [{"mountPath": "/b"}], [{"mountPath": "/a"}, {"mountPath": "/b"}]),
        ("volumes", [{"name": "v", "emptyDir": {}}], [{"name": "w"}], [{"name": "v", "emptyDir": {}}, {"name": "w"}]),
        (
            "replicatedJobs",
            [{"name": "n", "replicas": 1}],
            [{"name": "n", "replicas": 2}],
            [{"name": "n", "replicas": 2}],
        ),
        ("args", ["a", "b"], ["c"], ["c"]),
        ("things", [{"name": "a"}], [{"name": "b"}], [{"name": "b"}]),
        ("containers", [{"name": {"a": 1}}], [{"name": {"a": 1}, "b": 2}], [{"name": {"a": 1}, "b": 2}]),
    ],
)
def test_lists_of_named_items(field, base, patch, merged):
    before = copy.deepcopy((base, patch))
    assert merge_named({field: base}, {field: patch}) == {field: merged}
    assert (base, patch) == before
