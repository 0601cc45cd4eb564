"""Operators of CEL on numbers, texts, times and lists, with its overflow rules."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from unisono.api.cel import timestamps
from unisono.api.cel.errors import EvaluationError, no_overload
from unisono.api.cel.values import (
    UInt,
    checked_int,
    equal,
    type_name,
)


def _number(name: str, left: Any, right: Any) -> None:
    kinds = {type_name(left), type_name(right)}
    if len(kinds) != 1 or not kinds <= {"int", "uint", "double"}:
        raise no_overload(name)


def _bounded(value: Any, like: Any) -> Any:
    if isinstance(like, UInt):
        if not 0 <= value < 2**64:
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    return checked_int(value) if isinstance(like, int) else value


def add(left: Any, right: Any) -> Any:
    """``_+_``."""
    both = (type(left), type(right))
    if both in ((str, str), (bytes, bytes), (list, list)):
        return left + right
    if isinstance(left, datetime | timedelta) or isinstance(right, datetime | timedelta):
        return timestamps.added(left, right)
    _number("_+_", left, right)
    return _bounded(left + right, left)


def subtract(left: Any, right: Any) -> Any:
    """``_-_``."""
    if isinstance(left, datetime | timedelta):
        return timestamps.subtracted(left, right)
    _number("_-_", left, right)
    return _bounded(left - right, left)


def multiply(left: Any, right: Any) -> Any:
    """``_*_``."""
    _number("_*_", left, right)
    return _bounded(left * right, left)


def divide(left: Any, right: Any) -> Any:
    """``_/_``; of integers it rounds towards zero."""
    _number("_/_", left, right)
    if isinstance(left, float):
        if right:
            return left / right
        return math.copysign(math.inf, left) if left and not math.isnan(left) else math.nan
    if not right:
        raise EvaluationError("division by zero")
    whole = abs(left) // abs(right)
    return _bounded(whole if (left < 0) == (right < 0) else -whole, left)


def modulo(left: Any, right: Any) -> Any:
    """``_%_``, with the sign of the left operand."""
    _number("_%_", left, right)
    if isinstance(left, float):
        raise no_overload("_%_")
    if not right:
        raise EvaluationError("modulus by zero")
    rest = abs(left) % abs(right)
    return _bounded(-rest if left < 0 else rest, left)


def negate(value: Any) -> Any:
    """``-_``."""
    if type_name(value) not in ("int", "double"):
        raise no_overload("-_")
    return checked_int(-value) if isinstance(value, int) else -value


def negation(value: Any) -> bool:
    """``!_``."""
    if not isinstance(value, bool):
        raise no_overload("!_")
    return not value


def is_in(wanted: Any, owner: Any) -> bool:
    """``_in_``: a key of a map or an entry of a list."""
    if isinstance(owner, dict):
        return isinstance(wanted, str | int | float) and wanted in owner
    if not isinstance(owner, list):
        raise no_overload("@in")
    return any(equal(wanted, each) for each in owner)
