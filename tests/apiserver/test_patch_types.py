"""Merge, JSON and strategic merge patches as functions on JSON."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api import documents
from unisono.api.documents import apply_json_patch, apply_merge_patch
from unisono.api.kinds import CONFIG_MAPS, JOBS, PODS
from unisono.apiserver.operations.writes import apply_patch, media_types
from unisono.errors import ApiError, Invalid

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab~/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=2), inner, max_size=3),
    max_leaves=8,
)


# RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, {"b": {"c": {"d": None}}}, {"a": "foo", "b": {"c": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge(target, patch, expected):
    before = copy.deepcopy((target, patch))
    assert apply_merge_patch(target, patch) == expected
    assert (target, patch) == before


@given(json_values, json_values)
def test_a_merge_patch_is_idempotent(target, patch):
    once = apply_merge_patch(target, patch)
    assert apply_merge_patch(once, patch) == once


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"x": 1}}], {"x": 1}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/1"}], {"a": [1, 3]}),
        ({"a": {"b": 1}}, [{"op": "replace", "path": "/a/b", "value": 2}], {"a": {"b": 2}}),
        ({"a": [1]}, [{"op": "replace", "path": "/a/0", "value": 2}], {"a": [2]}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        ({"a": [1, 2]}, [{"op": "move", "from": "/a/0", "path": "/a/1"}], {"a": [2, 1]}),
        ({"a": {"x": 1}}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "b": {"x": 1}}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
        ({"a": 1.0}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}], {}),
        ({"~1": 1}, [{"op": "remove", "path": "/~01"}], {}),
        ({"": 1}, [{"op": "remove", "path": "/"}], {}),
    ],
)
def test_json_patch(target, patch, expected):
    before = copy.deepcopy((target, patch))
    assert apply_json_patch(target, patch) == expected
    assert (target, patch) == before


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ([{"op": "test", "path": "/a", "value": True}], 422, "testing value /a failed"),
        ([{"op": "test", "path": "/a", "value": "1"}], 422, "the server rejected our request due to an error in our"),
        ([{"op": "remove", "path": "/x"}], 422, "the path /x does not exist"),
        ([{"op": "replace", "path": "/x", "value": 1}], 422, "does not exist"),
        ([{"op": "add", "path": "/x/y", "value": 1}], 422, "does not exist"),
        ([{"op": "add", "path": "/a/y", "value": 1}], 422, "does not exist"),
        ([{"op": "add", "path": "/l/5", "value": 1}], 422, "does not exist"),
        ([{"op": "add", "path": "/l/01", "value": 1}], 422, "does not exist"),
        ([{"op": "remove", "path": "/l/-"}], 422, "does not exist"),
        ([{"op": "move", "from": "/o", "path": "/o/p"}], 422, "cannot move /o into itself"),
        ([{"op": "add", "path": "/b"}], 400, "needs a value"),
        ([{"op": "add", "path": "b", "value": 1}], 400, "is not a JSON pointer"),
        ([{"op": "add", "path": "/~2", "value": 1}], 400, "is not a JSON pointer"),
        ([{"op": "add", "value": 1}], 400, "is not a JSON pointer"),
        ([{"op": "explode", "path": "/a"}], 422, "unexpected kind: explode"),
        ({"a": 1}, 400, "must be a list of operations"),
        (["x"], 400, "must be a list of operations"),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413, "maximum operations in a JSON patch is 10000"),
    ],
)
def test_json_patches_that_are_refused(patch, code, message):
    target = {"a": 1, "l": [1], "o": {}}
    with pytest.raises(ApiError) as caught:
        apply_json_patch(target, patch)
    assert caught.value.code == code
    assert message in caught.value.message
    assert target == {"a": 1, "l": [1], "o": {}}


def test_copies_cannot_blow_up_a_document():
    bomb = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60
    with pytest.raises(Invalid, match="copies more than 3145728 bytes"):
        apply_json_patch({"a": ["x"]}, bomb)


@pytest.mark.parametrize("text", ["x" * 1_600_000, "é" * 1_600_000])
def test_what_a_patch_copies_is_counted_in_bytes_and_before_it_is_copied(text, monkeypatch):
    cloned = 0
    real = documents.clone

    def counted(value):
        nonlocal cloned
        cloned += 1
        return real(value)

    monkeypatch.setattr(documents, "clone", counted)
    copies = [{"op": "copy", "from": "/a", "path": f"/b{n}"} for n in range(2)]
    assert set(apply_json_patch({"a": text}, copies[:1])) == {"a", "b0"}
    before, cloned = cloned, 0
    with pytest.raises(Invalid, match="copies more than"):
        apply_json_patch({"a": text}, copies)
    assert cloned <= before + 1


operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "other"])},
    optional={
        "path": st.from_regex(r"(/(a|b|0|1|-|~0)){0,3}", fullmatch=True),
        "from": st.from_regex(r"(/(a|b|0|1)){0,3}", fullmatch=True),
        "value": json_values,
    },
)


@given(json_values, st.lists(operations, max_size=5))
def test_a_json_patch_applies_or_is_refused_and_never_harms_its_target(target, patch):
    before = copy.deepcopy(target)
    try:
        apply_json_patch(target, patch)
    except ApiError as error:
        assert error.code in (400, 422)
    assert target == before


def containers(*names_and_images):
    return {"spec": {"containers": [{"name": n, "image": i} for n, i in names_and_images]}}


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        (
            containers(("a", "1"), ("b", "1")),
            containers(("b", "2")),
            containers(("a", "1"), ("b", "2")),
        ),
        (containers(("a", "1")), containers(("b", "1")), containers(("a", "1"), ("b", "1"))),
        (
            containers(("a", "1"), ("b", "1")),
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            containers(("b", "1")),
        ),
        (
            containers(("a", "1"), ("b", "1")),
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c", "image": "1"}]}},
            containers(("c", "1")),
        ),
        (
            containers(("a", "1"), ("b", "1"), ("c", "1")),
            {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": []}},
            containers(("c", "1"), ("a", "1"), ("b", "1")),
        ),
        (
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
        ),
        (
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"a": None, "c": "3"}}},
            {"metadata": {"labels": {"b": "2", "c": "3"}}},
        ),
        (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"$patch": "replace", "b": "2"}}},
            {"metadata": {"labels": {"b": "2"}}},
        ),
        (
            {"metadata": {"labels": {"a": "1"}}},
            {"metadata": {"labels": {"$patch": "delete"}}},
            {"metadata": {"labels": {}}},
        ),
        (
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
        ),
        (
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
        ),
        (
            {"spec": {"containers": [{"name": "a", "env": [{"name": "x", "value": "1"}]}]}},
            {"spec": {"containers": [{"name": "a", "env": [{"name": "y", "value": "2"}]}]}},
            {
                "spec": {
                    "containers": [{"name": "a", "env": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]}]
                }
            },
        ),
        ({"spec": {}}, {"spec": {"nodeSelector": {"a": "b"}}}, {"spec": {"nodeSelector": {"a": "b"}}}),
        ({"spec": {"nodeName": "n"}}, {"spec": {"nodeName": None}}, {"spec": {}}),
    ],
)
def test_strategic_merge(target, patch, expected):
    before = copy.deepcopy((target, patch))
    assert apply_patch(PODS, target, patch, "strategic") == expected
    assert (target, patch) == before


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"image": "x"}]}},
        {"spec": {"containers": ["x"]}},
        {"spec": {"$patch": "explode"}},
        {"spec": {"$retainKeys": "x"}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}},
        {"spec": {"$setElementOrder/containers": 3}},
        {"metadata": {"finalizers": [{}]}},
    ],
)
def test_malformed_strategic_patches(patch):
    target = {"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}]}}
    with pytest.raises(ApiError) as caught:
        apply_patch(PODS, target, patch, "strategic")
    assert caught.value.code == 400


@given(json_values, st.sampled_from(["merge", "json", "strategic", "apply"]))
def test_any_patch_is_applied_or_refused(patch, patch_type):
    target = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}]}}
    try:
        assert isinstance(apply_patch(PODS, target, patch, patch_type), dict)
    except ApiError as error:
        assert error.code in (400, 415, 422)


def test_a_patch_that_is_nested_too_deeply():
    patch = {}
    for _ in range(100_000):
        patch = {"a": patch}
    with pytest.raises(ApiError, match="nested too deeply"):
        apply_patch(CONFIG_MAPS, {}, patch, "merge")


def test_what_the_kinds_take():
    assert "application/strategic-merge-patch+json" in media_types(PODS)
    assert "application/strategic-merge-patch+json" not in media_types(JOBS)


class Counted(str):
    """Text that counts how often it is compared."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


_MANY = 300
_FINALIZERS = [Counted(f"f{n}") for n in range(_MANY)]


def _containers(**more):
    return [{"name": Counted(f"c{n}"), **more} for n in reversed(range(_MANY))]


@pytest.mark.parametrize(
    ("patch", "first", "left"),
    [
        ({"spec": {"containers": _containers(image="j")}}, "c0", _MANY),
        ({"spec": {"containers": _containers(**{"$patch": "delete"})}}, None, 0),
        (
            {"spec": {"$setElementOrder/containers": _containers(), "containers": _containers(image="j")}},
            "c299",
            _MANY,
        ),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": _FINALIZERS}}, "c0", _MANY),
        ({"metadata": {"finalizers": _FINALIZERS[::-1]}}, "c0", _MANY),
        ({"metadata": {"$retainKeys": _FINALIZERS}}, "c0", _MANY),
    ],
)
def test_strategic_patches_of_long_lists_compare_each_item_a_few_times(patch, first, left):
    target = {
        "metadata": {"finalizers": list(_FINALIZERS)},
        "spec": {"containers": [{"name": Counted(f"c{n}")} for n in range(_MANY)]},
    }
    Counted.compared = 0
    patched = apply_patch(PODS, target, patch, "strategic")
    assert Counted.compared < 8 * _MANY
    containers = patched["spec"]["containers"]
    assert (containers[0]["name"] if containers else None, len(containers)) == (first, left)
