"""Constraints of the generated schema (minimum, pattern, enum, lengths, required), as an API server checks a CRD's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from unisono.api.base import Object, Quantity
from unisono.api.core import Node
from unisono.api.field_error import FieldError, invalid, not_supported, required, too_long
from unisono.api.quantity import QuantityError, canonical, format_bytes, to_int, to_milli
from unisono.api.resources import LARGEST, is_bytes
from unisono.api.shape import FieldShape, Shape, shape_of

_WHOLE_THOUSANDTHS: Final = LARGEST // 1000


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("$", r"\Z"), re.ASCII)


def validate_shape(shape: Shape, value: Any, path: str = "") -> Iterator[FieldError]:
    """Walk a struct (or a list, map or scalar in it) along its shape."""
    match shape.kind:
        case "object":
            yield from _object(shape, value, path)
        case "array":
            if shape.item is not None and shape.item.constrained:
                for index, each in enumerate(value):
                    yield from validate_shape(shape.item, each, f"{path}[{index}]")
        case "map":
            if shape.item is not None and shape.item.constrained:
                for key, each in value.items():
                    yield from validate_shape(shape.item, each, f"{path}[{key}]")
        case "string":
            yield from _text(shape.rules, value, path)
        case "integer":
            yield from _integer(shape.rules, value, path)
        case _:
            return


def _object(shape: Shape, value: Any, path: str) -> Iterator[FieldError]:
    for name, entry in shape.fields.items():
        below = getattr(value, entry.attribute)
        at = f"{path}.{name}" if path else name
        if entry.required and not below:
            yield required(at)
        elif below is not None and entry.shape.constrained:
            # The empty string is how a struct says that a plain str field is absent.
            if below == "" and not entry.required:
                continue
            yield from validate_shape(entry.shape, below, at)


def _text(rules: Mapping[str, Any], value: str, path: str) -> Iterator[FieldError]:
    if "enum" in rules and value not in rules["enum"]:
        yield not_supported(path, value, rules["enum"])
    if "maxLength" in rules and len(value) > rules["maxLength"]:
        yield too_long(path, value, rules["maxLength"])
    if "minLength" in rules and len(value) < rules["minLength"]:
        yield invalid(path, value, f"{path} in body should be at least {rules['minLength']} chars long")
    if "pattern" in rules and not _pattern(rules["pattern"]).search(value):
        yield invalid(path, value, f"{path} in body should match '{rules['pattern']}'")


def _integer(rules: Mapping[str, Any], value: int, path: str) -> Iterator[FieldError]:
    if "minimum" in rules and value < rules["minimum"]:
        yield invalid(path, value, f"{path} in body should be greater than or equal to {rules['minimum']}")
    if "maximum" in rules and value > rules["maximum"]:
        yield invalid(path, value, f"{path} in body should be less than or equal to {rules['maximum']}")


def validate_bounds(struct: type[Object], obj: Object, old: Object | None) -> Iterator[FieldError]:
    """Quantities beyond `LARGEST`, with the path of each.

    What ``old`` says already may stay: an object that an earlier version admitted can still be changed and deleted. Of
    statuses only those of nodes are looked at; the others are sums that components write, and stop at the bound.
    """
    found = list(_fields(struct, obj, ""))
    if found and old is not None:
        known = {error.message() for error in _fields(struct, old, "")}
        found = [error for error in found if error.message() not in known]
    yield from found


def _fields(struct: type[msgspec.Struct], value: Any, path: str) -> Iterator[FieldError]:
    for entry in _carriers(struct):
        below = getattr(value, entry.attribute)
        if below is not None and (path or entry.name != "status" or struct is Node):
            yield from _walk(entry.shape, below, f"{path}.{entry.name}" if path else entry.name, "storage")


def _walk(shape: Shape, value: Any, path: str, resource: str) -> Iterator[FieldError]:
    match shape.kind:
        case "quantity":
            yield from _amount(value, path, resource)
        case "map":
            if shape.item is not None:
                for key, each in value.items():
                    yield from _walk(shape.item, each, f"{path}[{key}]", key)
        case "array":
            if shape.item is not None:
                for index, each in enumerate(value):
                    yield from _walk(shape.item, each, f"{path}[{index}]", resource)
        case _:
            if shape.struct is not None:
                yield from _fields(shape.struct, value, path)


def _amount(quantity: Quantity, path: str, resource: str) -> Iterator[FieldError]:
    whole = is_bytes(resource) or resource == "pods"
    try:
        amount = to_int(quantity) if whole else to_milli(quantity)
    except QuantityError:
        return  # its own rule says so
    if amount > LARGEST:
        most = format_bytes(LARGEST) if whole and resource != "pods" else str(LARGEST if whole else _WHOLE_THOUSANDTHS)
        yield invalid(path, canonical(quantity), f"must be less than or equal to {most}")


@cache
def _carriers(struct: type[msgspec.Struct]) -> tuple[FieldShape, ...]:
    """Fields of a struct with quantities in them or below them."""
    return tuple(entry for entry in shape_of(struct).fields.values() if _carries(entry.shape))


def _carries(shape: Shape) -> bool:
    if shape.kind == "quantity":
        return True
    if shape.item is not None:
        return _carries(shape.item)
    return shape.struct is not None and bool(_carriers(shape.struct))
