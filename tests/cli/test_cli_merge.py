"""The three-way merge of apply, case by case and as a property."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unisono.api.keys import LAST_APPLIED
from unisono.cli.applying import last_applied_text, three_way_patch, with_last_applied


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386, written from the RFC, as the oracle."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def live_of(manifest: dict[str, Any], **extra: Any) -> dict[str, Any]:
    live = copy.deepcopy(with_last_applied(manifest))
    live["metadata"].update({"uid": "u", "resourceVersion": "7"})
    return {**live, **extra}


def manifest(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": spec}


def test_the_same_manifest_again_changes_nothing() -> None:
    assert three_way_patch(manifest(a=1), live_of(manifest(a=1), status={"phase": "Running"})) == {}


def test_a_changed_field_is_set_and_the_record_follows() -> None:
    patch = three_way_patch(manifest(a=2, b=1), live_of(manifest(a=1, b=1)))
    assert patch["spec"] == {"a": 2}
    assert json.loads(patch["metadata"]["annotations"][LAST_APPLIED])["spec"] == {"a": 2, "b": 1}


def test_a_field_that_the_file_dropped_is_removed() -> None:
    assert three_way_patch(manifest(a=1), live_of(manifest(a=1, b=1)))["spec"] == {"b": None}


def test_a_field_that_somebody_else_set_stays() -> None:
    live = live_of(manifest(a=1))
    live["spec"]["replicas"] = 9
    assert three_way_patch(manifest(a=1), live) == {}


def test_an_object_created_without_apply_gets_the_record() -> None:
    live = {**manifest(a=1), "metadata": {"name": "a", "uid": "u"}}
    patch = three_way_patch(manifest(a=1), live)
    assert list(patch) == ["metadata"]
    assert merge_patch(live, patch)["metadata"]["annotations"][LAST_APPLIED] == last_applied_text(manifest(a=1))


def test_a_record_that_is_no_json_counts_as_none() -> None:
    live = live_of(manifest(a=1, b=2))
    live["metadata"]["annotations"][LAST_APPLIED] = "{"
    assert "spec" not in three_way_patch(manifest(a=1), live)


def test_an_explicit_null_in_the_file_removes_the_field() -> None:
    live = live_of(manifest(a=1, b=2))
    patched = merge_patch(live, three_way_patch(manifest(a=1, b=None), live))
    assert patched["spec"] == {"a": 1}


LEAVES = st.one_of(st.integers(0, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 2), max_size=2))
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(st.sampled_from("pqrs"), inner, max_size=3), max_leaves=8)
SPECS = st.dictionaries(st.sampled_from("pqrs"), TREES, max_size=4)


@given(before=SPECS, after=SPECS)
def test_applying_twice_ends_at_the_second_file_and_is_quiet_then(before: Any, after: Any) -> None:
    live = live_of(manifest(**before))
    patched = merge_patch(live, three_way_patch(manifest(**after), live))
    assert _without_empty(patched["spec"]) == _without_empty(after)
    assert three_way_patch(manifest(**after), patched) == {}


def _without_empty(value: Any) -> Any:
    """A merge patch cannot tell an empty mapping from one whose keys were all removed."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(item) for key, item in value.items()}
    return {key: item for key, item in inner.items() if item != {}}
