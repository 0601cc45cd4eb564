"""JSON merge patches (RFC 7386), the same with lists of named items, and changes carried over to another document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.api.documents.json_patch import frozen, same
from unisono.api.merge_keys import LISTS

Json = dict[str, Any]
# Fields by which the items of a list are the same, by the list's name; the first that all items have. Volumes of pods
# have names, those of Volcano's jobs paths.
_ITEM_KEYS: dict[str, tuple[str, ...]] = {
    name: (merge.key,)
    for struct in ("PodSpec", "Container")
    for name, merge in LISTS[struct].items()
    if merge.key and merge.strategy
} | {"tasks": ("name",), "replicatedJobs": ("name",), "volumes": ("name", "mountPath")}


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """The patched value: null deletes, objects merge, everything else is replaced.

    It shares unchanged parts with ``target``; neither argument is changed.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The merge patch that turns ``old`` into ``new``; empty when they are equal.

    Lists are replaced as a whole. A merge patch cannot write null, so that a key with null counts as none.
    """
    patch: Json = {key: None for key in old if new.get(key) is None and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if change := merge_diff(before, value):
                patch[key] = change
        elif value is not None and not same(before, value):
            patch[key] = value
    return patch


def merge_named(base: Any, patch: Any, field: str = "") -> Any:
    """A merge patch whose lists of named items, such as containers, are merged item by item; others are replaced.

    Args:
        base: what is patched.
        patch: what goes over it.
        field: the name that the two have in the document around them.

    """
    if isinstance(patch, dict):
        result = dict(base) if isinstance(base, dict) else {}
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merge_named(result.get(name), value, name)
        return result
    if isinstance(patch, list | tuple) and isinstance(base, list | tuple):
        items = [*base, *patch]
        for key in _ITEM_KEYS.get(field, ()):
            if all(isinstance(item, dict) and key in item for item in items):
                return _merged_items(key, items)
    return patch


def _merged_items(key: str, items: list[Json]) -> list[Json]:
    merged: list[Json] = []
    places: dict[Any, int] = {}
    for item in items:
        at = places.setdefault(frozen(item[key]), len(merged))
        if at == len(merged):
            merged.append(item)
        else:
            merged[at] = merge_named(merged[at], item)
    return merged


def carry_over(base: Any, before: Any, after: Any) -> Any:
    """``base`` with what changed from ``before`` to ``after``; what neither of the two knows stays as it is."""
    if isinstance(base, dict) and isinstance(before, dict) and isinstance(after, dict):
        changed = {
            key: carry_over(base.get(key), before.get(key), value)
            for key, value in after.items()
            if key not in before or not same(before[key], value)
        }
        return {key: value for key, value in base.items() if key in after or key not in before} | changed
    lists = (base, before, after)
    if all(isinstance(value, list) for value in lists) and len({len(value) for value in lists}) == 1:
        return [carry_over(*each) for each in zip(*lists, strict=True)]
    return base if same(before, after) else after
