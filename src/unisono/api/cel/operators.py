"""Operators of CEL with its overflow rules, and functions on lists."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from unisono.api.cel import texts, values
from unisono.api.cel.values import EvaluationError, UInt, checked_int, equal, less, no_overload, type_name


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
        return values.added(left, right)
    _number("_+_", left, right)
    return _bounded(left + right, left)


def subtract(left: Any, right: Any) -> Any:
    """``_-_``."""
    if isinstance(left, datetime | timedelta):
        return values.subtracted(left, right)
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


# CEL functions on lists, and those that take a list or a text.


def checked_list(value: Any, name: str) -> list[Any]:
    """The value, which must be a list.

    Raises:
        EvaluationError: it is none; ``name`` is the function that was called.
    """
    if not isinstance(value, list):
        raise no_overload(name)
    return value


def is_sorted(values: Any) -> bool:
    """Whether no entry is less than the one before."""
    return not any(less(right, left, "isSorted") for left, right in pairwise(checked_list(values, "isSorted")))


def total(values: Any) -> Any:
    """The sum of numbers or durations; 0 of none."""
    result: Any = None
    for each in checked_list(values, "sum"):
        result = each if result is None else add(result, each)
    return 0 if result is None else result


def extreme(name: str, values: Any, *, largest: bool) -> Any:
    """The largest or the smallest entry.

    Raises:
        EvaluationError: the list is empty, or its entries cannot be compared.
    """
    entries = checked_list(values, name)
    if not entries:
        raise EvaluationError(f"{name} called on empty list")
    best = entries[0]
    for each in entries[1:]:
        if less(best, each, name) if largest else less(each, best, name):
            best = each
    return best


def index_of(value: Any, wanted: Any, start: int = 0) -> int:
    """Position of the first such entry, or of the first such part of a text; -1 without one."""
    if isinstance(value, str):
        return texts.index_of(value, wanted, start)
    return next((at for at, each in enumerate(checked_list(value, "indexOf")) if equal(each, wanted)), -1)


def last_index_of(value: Any, wanted: Any, *start: int) -> int:
    """Position of the last such entry, or of the last such part of a text; -1 without one."""
    if isinstance(value, str):
        return texts.last_index_of(value, wanted, *start)
    values = checked_list(value, "lastIndexOf")
    return next((at for at in range(len(values) - 1, -1, -1) if equal(values[at], wanted)), -1)


def flatten(values: Any) -> list[Any]:
    """Entries of lists in place of the lists, one level deep."""
    return [inner for each in checked_list(values, "flatten") for inner in (each if isinstance(each, list) else [each])]


def distinct(values: Any) -> list[Any]:
    """Entries without those that equal an earlier one."""
    unique: list[Any] = []
    for each in checked_list(values, "distinct"):
        if not any(equal(each, other) for other in unique):
            unique.append(each)
    return unique


def part(values: Any, start: int, end: int) -> list[Any]:
    """Entries from ``start`` to before ``end``."""
    if not 0 <= start <= end <= len(checked_list(values, "slice")):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def contains_all(left: Any, right: Any) -> bool:
    """Whether the left list has all entries of the right one."""
    return all(any(equal(each, other) for other in checked_list(left, "sets")) for each in checked_list(right, "sets"))


def intersects(left: Any, right: Any) -> bool:
    """Whether the lists have an entry in common."""
    return any(equal(one, other) for one in checked_list(left, "sets") for other in checked_list(right, "sets"))


def numbers(values: tuple[Any, ...]) -> list[Any]:
    """Values of ``math.greatest(1, 2)``, or of the one list in ``math.greatest([1, 2])``."""
    return values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
