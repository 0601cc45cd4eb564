"""Merge patches of some fields of an object, made from how it is and how it should be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from unisono.api.documents.merge import Json, merge_diff


def to_json(value: msgspec.Struct | None) -> Json:
    """The struct as plain JSON values under its wire names; ``None`` gives an empty object."""
    return {} if value is None else msgspec.to_builtins(value)


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
