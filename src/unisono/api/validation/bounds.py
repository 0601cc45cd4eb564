"""The upper bound of quantities, wherever a kind carries them: sums over many objects must stay within 64 bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec

from unisono.api.base import Object
from unisono.api.core import Node
from unisono.api.field_error import FieldError, invalid
from unisono.api.fields import Quantity
from unisono.api.quantity import QuantityError, canonical, format_bytes, to_int, to_milli
from unisono.api.resources import LARGEST, is_bytes
from unisono.api.shape import FieldShape, Shape, shape_of

_WHOLE_THOUSANDTHS: Final = LARGEST // 1000


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
