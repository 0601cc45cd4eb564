"""Everything that can be wrong with an object of a user-defined kind, told as Kubernetes tells it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.field_error import FieldError, invalid, json_type
from unisono.api.structural import check_lists, check_value
from unisono.api.structural.embedded import check_embedded
from unisono.api.structural.node import ABSENT
from unisono.api.structural.values import NOWHERE
from unisono.api.validation.meta import validate_meta, validate_meta_update
from unisono.apiserver.custom import cel
from unisono.apiserver.custom.kinds import CustomKind, CustomObject
from unisono.apiserver.custom.scale import find_value

_LARGEST = 2**31 - 1
# Errors that leave open what type a value has: rules are not run on such objects.
_BLOCKING = frozenset(
    ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid")
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def check_object(kind: CustomKind, obj: CustomObject, old: CustomObject | None) -> list[FieldError]:
    """All errors of a new object, or of the update of ``old``; empty when it is valid."""
    errors = [*validate_meta(kind, obj.metadata)]
    before: Any = ABSENT
    value = obj.values()
    if old is not None:
        errors += validate_meta_update(obj.metadata, old.metadata)
        before = old.values()
    errors += check_value(kind.node, value, before)
    errors += _scale(kind, value)
    errors += check_embedded(kind.node, value)
    if old is None or not any(check_lists(kind.node, before)):
        errors += check_lists(kind.node, value)
    if kind.node.has_rules:
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(invalid(NOWHERE, None, _UNCHECKED))
        else:
            errors += cel.check_rules(kind.node, value, before)
    return list({error.message(): error for error in errors}.values())


def _scale(kind: CustomKind, value: dict[str, Any]) -> Iterator[FieldError]:
    if kind.scale is None:
        return
    for path in (kind.scale.spec_replicas, kind.scale.status_replicas):
        found = find_value(value, path)
        if found is None:
            continue
        if isinstance(found, bool) or not isinstance(found, int):
            why = f"{path} accessor error: {found} is of the type {json_type(found)}, expected int64"
            yield invalid(path, 0, why)
        elif found < 0:
            yield invalid(path, found, "should be a non-negative integer")
        elif found > _LARGEST:
            yield invalid(path, found, f"should be less than or equal to {_LARGEST}")
    if kind.scale.selector:
        found = find_value(value, kind.scale.selector)
        if found is not None and not isinstance(found, str):
            why = f"{kind.scale.selector} accessor error: it is of the type {json_type(found)}, expected string"
            yield invalid(kind.scale.selector, "", why)
