"""Owners of objects of one outline are found once: the answers are those of a search for each object."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.core import Pod
from unisono.api.kinds import PODS
from unisono.apiserver import encoding
from unisono.apiserver.managed_fields import paths
from unisono.apiserver.managed_fields.managers import Kept, outline, telling
from unisono.apiserver.managed_fields.paths import all_fields
from unisono.apiserver.operations import field_owners
from unisono.apiserver.types import WriteOptions

_SCHEMA = field_owners.schema(PODS)
_words = st.sampled_from(["a", "b", "web"])
_ports = st.fixed_dictionaries({"containerPort": st.integers(1, 3)}, optional={"protocol": st.sampled_from(["UDP"])})
_containers = st.fixed_dictionaries(
    {"name": _words},
    optional={
        "image": _words,
        "args": st.lists(_words, max_size=2),
        "ports": st.lists(_ports, max_size=2),
        "env": st.lists(st.fixed_dictionaries({"name": _words}, optional={"value": _words}), max_size=2),
    },
)
_metas = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(_words, _words, max_size=2),
        "finalizers": st.lists(_words, max_size=2),
        "ownerReferences": st.lists(st.fixed_dictionaries({"uid": _words, "name": _words}), max_size=2),
    },
)
_pods = st.fixed_dictionaries(
    {"metadata": _metas, "spec": st.fixed_dictionaries({"containers": st.lists(_containers, max_size=2)})}
)


@given(_pods, _pods)
def test_equal_outlines_have_equal_fields(one: dict[str, Any], other: dict[str, Any]) -> None:
    names = telling(_SCHEMA)
    if outline(one, names) == outline(other, names):
        assert all_fields(one, _SCHEMA) == all_fields(other, _SCHEMA)


def _created(value: dict[str, Any], manager: str) -> Pod:
    pod = encoding.read(PODS, encoding.render(encoding.decode_body(PODS, value).obj))
    field_owners.on_create(PODS, PODS, pod, value, WriteOptions(field_manager=manager), "2026-01-01T00:00:00Z")
    return pod


@pytest.mark.parametrize(
    ("change", "shared"),
    [
        pytest.param({"image": "other"}, True, id="another image"),
        pytest.param({"args": ["--index=2"]}, True, id="another argument"),
        pytest.param({"name": "sidecar"}, False, id="another container"),
        pytest.param({"ports": [{"containerPort": 80}, {"containerPort": 81}]}, False, id="another port"),
    ],
)
def test_creators_own_what_they_gave(change: dict[str, Any], shared: bool) -> None:
    container = {"name": "main", "image": "busybox", "args": ["--index=1"], "ports": [{"containerPort": 80}]}
    first = _created({"metadata": {"name": "a"}, "spec": {"containers": [container]}}, "one")
    second = _created({"metadata": {"name": "b"}, "spec": {"containers": [container | change]}}, "two")
    (mine,), (theirs,) = first.metadata.managed_fields or [], second.metadata.managed_fields or []
    assert (mine["manager"], theirs["manager"]) == ("one", "two")
    assert (mine["fieldsV1"] == theirs["fieldsV1"]) is shared
    for name in change:
        assert f"f:{name}" in str(theirs["fieldsV1"])


def test_old_answers_go_and_failures_are_not_kept() -> None:
    kept, asked = Kept[range](2, 10), list[int]()

    def ask(number: int) -> range:
        asked.append(number)
        if number < 0:
            raise ValueError("no answer")
        return range(number)

    for number in (1, 2, 1, 3, 1, 2):
        assert kept.answer(number, partial(ask, number)) == range(number)
    assert asked == [1, 2, 3, 2], "3 took the place of 2, which nobody had asked for since"
    for _ in range(2):
        with pytest.raises(ValueError, match="no answer"):
            kept.answer(-1, lambda: ask(-1))
    assert asked[-2:] == [-1, -1]


def test_large_answers_are_not_kept() -> None:
    kept, asked = Kept[range](2, 10), list[int]()
    for _ in range(3):
        assert kept.answer("large", lambda: asked.append(1) or range(10)) == range(10)
    assert len(asked) == 3


def test_large_sets_of_fields_are_not_remembered() -> None:
    """Each of a thousand that a cache holds would keep megabytes of what one user once wrote."""
    for count, remembered in ((10, True), (5000, False)):
        owned = frozenset({("f:data", f"f:k{number}") for number in range(count)})
        tree = paths.to_tree(owned)
        assert (paths.to_tree(owned) is tree) is remembered
        assert paths.from_tree(tree) == owned
        assert (paths.from_tree(tree) is paths.from_tree(tree)) is remembered
