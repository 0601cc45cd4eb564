"""Merge patches made from two states of an object."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

Json = dict[str, Any]


def to_json(value: msgspec.Struct | None) -> Json:
    """The struct as plain JSON values under its wire names; ``None`` gives an empty object."""
    return {} if value is None else msgspec.to_builtins(value)


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The JSON merge patch (RFC 7386) that turns ``old`` into ``new``; empty when they are equal."""
    patch: Json = {key: None for key in old if key not in new and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if before == value:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            patch[key] = merge_diff(before, value)
        else:
            patch[key] = value
    return patch


def field_diff(
    actual: Mapping[str, Any],
    wanted: Mapping[str, Any],
    fields: Iterable[str],
    *,
    exact: Collection[str],
    kept: Collection[str] = (),
) -> Json:
    """Merge patch that brings some fields of ``wanted`` into ``actual``; what others or defaults added to them stays.

    Args:
        actual: the object, or a part of it.
        wanted: the same as it should be.
        fields: names of the fields to compare.
        exact: fields whose maps must have no other entries than the wanted ones.
        kept: fields that stay where nothing is wanted; the others are removed.

    """
    patch: Json = {}
    for key in fields:
        have, want = actual.get(key), wanted.get(key)
        if want is None:
            if have is not None and key not in kept:
                patch[key] = None
        elif key in exact:
            if change := merge_diff(have or {}, want):
                patch[key] = change
        elif not contains(have, want):
            patch[key] = want
    return patch


def contains(actual: Any, wanted: Any) -> bool:
    """Whether every value of ``wanted`` is in ``actual``: what others added, such as defaults, does not count."""
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and all(
            key in actual and contains(actual[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(wanted)
            and all(contains(a, w) for a, w in zip(actual, wanted, strict=True))
        )
    return bool(actual == wanted)
