"""Spellings that users write and that mean a field of another form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from unisono.api.groups.batch import DependsOn
from unisono.api.groups.scheduling import Guarantee, QueueSpec
from unisono.api.shape import FieldShape, shape_of


def _queue_spec(value: Any) -> Any:
    """``guaranteed: {cpu: 20}`` means ``guarantee: {resource: {cpu: 20}}``; the official spelling wins."""
    if not isinstance(value, dict) or "guaranteed" not in value:
        return value
    rest = {key: each for key, each in value.items() if key != "guaranteed"}
    if rest.get("guarantee") is None and value["guaranteed"] is not None:
        rest["guarantee"] = {"resource": value["guaranteed"]}
    return rest


def _depends_on(value: Any) -> Any:
    """``dependsOn: task-a``, ``dependsOn: [task-a]`` and ``dependsOn: {name: task-a}`` mean a list of names."""
    if isinstance(value, str):
        return {"name": [value]}
    if isinstance(value, list):
        return {"name": value}
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return {**value, "name": [value["name"]]}
    return value


_NORMALISERS: dict[type[msgspec.Struct], Callable[[Any], Any]] = {QueueSpec: _queue_spec, DependsOn: _depends_on}


def normalise(struct: type[msgspec.Struct], value: Any) -> Any:
    """``value`` in the official spelling of ``struct``; the input is not changed."""
    normaliser = _NORMALISERS.get(struct)
    return value if normaliser is None else normaliser(value)


@cache
def alias_fields(struct: type[msgspec.Struct]) -> Mapping[str, FieldShape]:
    """Fields that only other spellings have, by wire name.

    A definition names them, since an API server refuses or drops what its schema does not have. A spelling that gives a
    known field another type has no place in a schema; the mutating webhook rewrites it.
    """
    if struct is not QueueSpec:
        return {}
    told = "the same as guarantee.resource, for manifests that spell it so; guarantee wins."
    return {"guaranteed": FieldShape("guaranteed", "", shape_of(Guarantee).fields["resource"].shape, False, told)}
