"""Rules of numbers in schemas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from unisono.api.field_error import FieldError, invalid
from unisono.api.structural.lists import identity
from unisono.api.structural.node import Node

_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)


def show_number(value: float) -> str:
    """A number as Go prints it: whole numbers without a fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def same_number(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; 1 and 1.0 are, 1 and true are not."""
    return bool(_plain(left) == _plain(right))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return identity(value)


def check_number(node: Node, value: float, path: str) -> Iterator[FieldError]:
    """Format, multipleOf, maximum and minimum."""
    if node.type == "integer" and len(node.types) == 1:
        first, last = _RANGES.get(node.format, _INT64)
        if not first <= value <= last or (isinstance(value, float) and not value.is_integer()):
            form = f"with format {node.format}" if node.format in ("int32", "int64") else "(default format)"
            yield invalid("<nil>", "", f"Checked value must be of type integer {form} in {path}")
    bounds = node.bounds
    step = bounds.get("multipleOf")
    if step and not _divides(step, value):
        yield invalid(path, value, f"{path} in body should be a multiple of {show_number(step)}")
    highest, lowest = bounds.get("maximum"), bounds.get("minimum")
    if highest is not None:
        strict = bounds.get("exclusiveMaximum") is True
        if value > highest or (strict and value == highest):
            word = "less than" if strict else "less than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {show_number(highest)}")
    if lowest is not None:
        strict = bounds.get("exclusiveMinimum") is True
        if value < lowest or (strict and value == lowest):
            word = "greater than" if strict else "greater than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {show_number(lowest)}")


def _divides(step: float, value: float) -> bool:
    if isinstance(step, int) and isinstance(value, int):
        return value % step == 0
    if not (math.isfinite(step) and math.isfinite(value)):
        return False
    # In decimal, as people read them: 0.3 is a multiple of 0.1.
    return Fraction(repr(value)) % Fraction(repr(step)) == 0
