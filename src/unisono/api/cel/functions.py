"""The functions and operators of CEL and those that Kubernetes adds, each with what a call costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from unisono.api.cel import authorization, conversions, networks, texts, timestamps
from unisono.api.cel.errors import EvaluationError, no_overload
from unisono.api.cel.values import (
    Optional,
    Quantity,
    Semver,
    Type,
    UInt,
    checked_int,
    equal,
    less,
    size_of,
    type_name,
    weight,
)

Cost = Callable[..., float]


@dataclass(frozen=True, slots=True)
class Function:
    """One function.

    Attributes:
        call: takes the values, a method's target first.
        fewest, most: number of values.
        cost: takes the same values; None for one unit.

    """

    call: Callable[..., Any]
    fewest: int = 1
    most: int = 1
    cost: Cost | None = None


def _by_size(*values: Any) -> float:
    """A tenth of all characters and entries, as cel-go counts traversed strings."""
    return 1 + sum(map(size_of, values)) / 10


def _by_entries(*values: Any) -> float:
    return 1 + sum(weight(value) for value in values)


def _comparing(left: Any, right: Any) -> float:
    """The smaller one decides how long a comparison takes."""
    if isinstance(left, str | bytes):
        return min(size_of(left), size_of(right)) / 10
    if isinstance(left, list | dict):
        return min(weight(left), weight(right)) if size_of(left) == size_of(right) else 0
    return 0


def _searching(text: Any, part: Any = "", *_: Any) -> float:
    return 1 + size_of(text) / 10 * max(1.0, size_of(part) / 10)


def _matching(text: Any, pattern: Any, *_: Any) -> float:
    return 1 + max(1.0, size_of(text) / 10) * max(1.0, size_of(pattern) / 4)


def _within(wanted: Any, owner: Any) -> float:
    return 1 + (len(owner) * (1 + size_of(wanted) / 10) if isinstance(owner, list) else 0)


def _crossed(left: Any, right: Any, *_: Any) -> float:
    return 1 + size_of(left) * size_of(right)


def _replacing(text: Any, old: Any = "", new: Any = "", *_: Any) -> float:
    occurrences = size_of(text) / max(1, size_of(old))
    return 1 + (size_of(text) + occurrences * size_of(new)) / 10


def _joining(values: Any, separator: Any = "") -> float:
    return 1 + sum(1 + (size_of(each) + size_of(separator)) / 10 for each in values)


# ---- operators


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


def _add(left: Any, right: Any) -> Any:
    both = (type(left), type(right))
    if both in ((str, str), (bytes, bytes), (list, list)):
        return left + right
    if isinstance(left, datetime | timedelta) or isinstance(right, datetime | timedelta):
        return timestamps.added(left, right)
    _number("_+_", left, right)
    return _bounded(left + right, left)


def _subtract(left: Any, right: Any) -> Any:
    if isinstance(left, datetime | timedelta):
        return timestamps.subtracted(left, right)
    _number("_-_", left, right)
    return _bounded(left - right, left)


def _multiply(left: Any, right: Any) -> Any:
    _number("_*_", left, right)
    return _bounded(left * right, left)


def _divide(left: Any, right: Any) -> Any:
    _number("_/_", left, right)
    if isinstance(left, float):
        if right:
            return left / right
        return math.copysign(math.inf, left) if left and not math.isnan(left) else math.nan
    if not right:
        raise EvaluationError("division by zero")
    whole = abs(left) // abs(right)
    return _bounded(whole if (left < 0) == (right < 0) else -whole, left)


def _modulo(left: Any, right: Any) -> Any:
    _number("_%_", left, right)
    if isinstance(left, float):
        raise no_overload("_%_")
    if not right:
        raise EvaluationError("modulus by zero")
    rest = abs(left) % abs(right)
    return _bounded(-rest if left < 0 else rest, left)


def _negate(value: Any) -> Any:
    if type_name(value) not in ("int", "double"):
        raise no_overload("-_")
    return checked_int(-value) if isinstance(value, int) else -value


def _not(value: Any) -> bool:
    if not isinstance(value, bool):
        raise no_overload("!_")
    return not value


def _in(wanted: Any, owner: Any) -> bool:
    if isinstance(owner, dict):
        return isinstance(wanted, str | int | float) and wanted in owner
    if not isinstance(owner, list):
        raise no_overload("@in")
    return any(equal(wanted, each) for each in owner)


# ---- everything


def _size(value: Any) -> int:
    if not isinstance(value, str | bytes | list | dict):
        raise no_overload("size")
    return len(value)


def _type(value: Any) -> Type:
    return Type(type_name(value))


def shown(value: Any) -> str:
    """A value in an error's text, shortened."""
    return str(value)[:64]


def reason(error: Exception, name: str) -> str:
    """What an exception of Python means for users."""
    if isinstance(error, TypeError | AttributeError | KeyError):
        return f"no such overload: {name}"
    return " ".join(str(error).split())[:256]


# ---- lists


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise no_overload(name)
    return value


def _is_sorted(values: Any) -> bool:
    return not any(less(right, left, "isSorted") for left, right in pairwise(_list(values, "isSorted")))


def _sum(values: Any) -> Any:
    total: Any = None
    for each in _list(values, "sum"):
        total = each if total is None else _add(total, each)
    return 0 if total is None else total


def _extreme(name: str, values: Any, *, largest: bool) -> Any:
    found = _list(values, name)
    if not found:
        raise EvaluationError(f"{name} called on empty list")
    best = found[0]
    for each in found[1:]:
        if less(best, each, name) if largest else less(each, best, name):
            best = each
    return best


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return texts.index_of(value, wanted, start)
    return next((at for at, each in enumerate(_list(value, "indexOf")) if equal(each, wanted)), -1)


def _last_index_of(value: Any, wanted: Any, *start: int) -> int:
    if isinstance(value, str):
        return texts.last_index_of(value, wanted, *start)
    values = _list(value, "lastIndexOf")
    return next((at for at in range(len(values) - 1, -1, -1) if equal(values[at], wanted)), -1)


def _flatten(values: Any) -> list[Any]:
    return [inner for each in _list(values, "flatten") for inner in (each if isinstance(each, list) else [each])]


def _distinct(values: Any) -> list[Any]:
    found: list[Any] = []
    for each in _list(values, "distinct"):
        if not any(equal(each, other) for other in found):
            found.append(each)
    return found


def _slice(values: Any, start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(_list(values, "slice")):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return list(values[start:end])


def _contains_all(left: Any, right: Any) -> bool:
    return all(any(equal(each, other) for other in _list(left, "sets")) for each in _list(right, "sets"))


# ---- amounts and optionals


def _ordered(name: str, left: Any, right: Any) -> int:
    if type(left) is not type(right) or not isinstance(left, Quantity | Semver):
        raise no_overload(name)
    return int(left > right) - int(left < right)


def _amount(value: Any, name: str) -> Any:
    if not isinstance(value, Quantity):
        raise no_overload(name)
    return value.amount


def _moved(sign: int, left: Any, right: Any) -> Quantity:
    step = right if isinstance(right, int) and not isinstance(right, bool) else _amount(right, "add")
    return Quantity(_amount(left, "add") + sign * step)


def _as_integer(value: Any) -> int:
    amount = _amount(value, "asInteger")
    if amount.denominator != 1:
        raise EvaluationError("cannot convert value to integer")
    return checked_int(int(amount))


def _parses(parse: Callable[[str], Any]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        try:
            parse(texts.text(value, "is"))
        except EvaluationError:
            return False
        return True

    return check


def _some(value: Any, name: str) -> Optional:
    if not isinstance(value, Optional):
        raise no_overload(name)
    return value


def _value(value: Any) -> Any:
    found = _some(value, "value")
    if not found.present:
        raise EvaluationError("optional.none() dereference")
    return found.value


def _non_zero(value: Any) -> Optional:
    plain = value is None or isinstance(value, int | float | str | bytes | list | dict)
    return Optional() if plain and not value else Optional(value, present=True)


GLOBAL: dict[str, Function] = {
    "_==_": Function(equal, 2, 2, _comparing),
    "_!=_": Function(lambda left, right: not equal(left, right), 2, 2, _comparing),
    "_<_": Function(partial(less, name="_<_"), 2, 2, _comparing),
    "_<=_": Function(lambda left, right: less(left, right, "_<=_") or left == right, 2, 2, _comparing),
    "_>_": Function(lambda left, right: less(right, left, "_>_"), 2, 2, _comparing),
    "_>=_": Function(lambda left, right: less(right, left, "_>=_") or left == right, 2, 2, _comparing),
    "_in_": Function(_in, 2, 2, _within),
    "_+_": Function(_add, 2, 2, _by_size),
    "_-_": Function(_subtract, 2, 2),
    "_*_": Function(_multiply, 2, 2),
    "_/_": Function(_divide, 2, 2),
    "_%_": Function(_modulo, 2, 2),
    "-_": Function(_negate),
    "!_": Function(_not),
    "size": Function(_size),
    "type": Function(_type),
    "dyn": Function(lambda value: value),
    "matches": Function(texts.matches, 2, 2, _matching),
    **{name: Function(call, cost=_by_size) for name, call in conversions.CONVERSIONS.items()},
    **{name: Function(call, cost=_by_size) for name, call in networks.MAKERS.items()},
    "quantity": Function(lambda value: Quantity.parse(texts.text(value, "quantity")), cost=_by_size),
    "isQuantity": Function(_parses(Quantity.parse), cost=_by_size),
    "semver": Function(lambda value: Semver.parse(texts.text(value, "semver")), cost=_by_size),
    "isSemver": Function(_parses(Semver.parse), cost=_by_size),
}
METHODS: dict[str, Function] = {
    "size": Function(_size),
    "contains": Function(texts.contains, 2, 2, _searching),
    "startsWith": Function(texts.starts_with, 2, 2, lambda text, part: 1 + size_of(part) / 10),
    "endsWith": Function(texts.ends_with, 2, 2, lambda text, part: 1 + size_of(part) / 10),
    "matches": Function(texts.matches, 2, 2, _matching),
    "find": Function(texts.find, 2, 2, _matching),
    "findAll": Function(texts.find_all, 2, 3, _matching),
    "split": Function(texts.split, 2, 3, lambda text, *_: 1 + size_of(text)),
    "join": Function(texts.join, 1, 2, _joining),
    "replace": Function(texts.replace, 3, 4, _replacing),
    "lowerAscii": Function(texts.lower_ascii, cost=_by_size),
    "upperAscii": Function(texts.upper_ascii, cost=_by_size),
    "trim": Function(texts.trim, cost=_by_size),
    "reverse": Function(texts.reverse, cost=_by_size),
    "substring": Function(texts.substring, 2, 3, lambda text, *_: _by_size(text)),
    "charAt": Function(texts.char_at, 2, 2),
    "format": Function(texts.form, 2, 2, lambda text, values: _by_size(text) + _by_entries(values)),
    "indexOf": Function(_index_of, 2, 3, lambda value, *more: _searching(value, *more) + size_of(value)),
    "lastIndexOf": Function(_last_index_of, 2, 3, lambda value, *more: _searching(value, *more) + size_of(value)),
    "isSorted": Function(_is_sorted, cost=_by_entries),
    "sum": Function(_sum, cost=_by_entries),
    "min": Function(partial(_extreme, "min", largest=False), cost=_by_entries),
    "max": Function(partial(_extreme, "max", largest=True), cost=_by_entries),
    "flatten": Function(_flatten, cost=_by_entries),
    "distinct": Function(_distinct, cost=lambda values: 1 + size_of(values) * weight(values)),
    "slice": Function(_slice, 3, 3, lambda values, *_: 1 + size_of(values)),
    "compareTo": Function(partial(_ordered, "compareTo"), 2, 2),
    "isGreaterThan": Function(lambda left, right: _ordered("isGreaterThan", left, right) > 0, 2, 2),
    "isLessThan": Function(lambda left, right: _ordered("isLessThan", left, right) < 0, 2, 2),
    "sign": Function(lambda value: (_amount(value, "sign") > 0) - (_amount(value, "sign") < 0)),
    "add": Function(partial(_moved, 1), 2, 2),
    "sub": Function(partial(_moved, -1), 2, 2),
    "isInteger": Function(lambda value: _amount(value, "isInteger").denominator == 1),
    "asInteger": Function(_as_integer),
    "asApproximateFloat": Function(lambda value: float(_amount(value, "asApproximateFloat"))),
    "major": Function(lambda value: value.numbers[0]),
    "minor": Function(lambda value: value.numbers[1]),
    "patch": Function(lambda value: value.numbers[2]),
    "hasValue": Function(lambda value: _some(value, "hasValue").present),
    "value": Function(_value),
    "orValue": Function(lambda value, other: _value(value) if _some(value, "orValue").present else other, 2, 2),
    "or": Function(lambda value, other: value if _some(value, "or").present else _some(other, "or"), 2, 2),
    **{name: Function(call, 1, 2) for name, call in timestamps.METHODS.items()},
    **{name: Function(call, cost=_by_size) for name, call in networks.METHODS.items()},
    **{name: Function(call, 2, 2, _by_size) for name, call in networks.TWO.items()},
    **{name: Function(call, 2, 2) for name, call in authorization.STEPS.items()},
    **{name: Function(call, cost=lambda _: authorization.COST) for name, call in authorization.ANSWERS.items()},
}
QUALIFIED: dict[str, Function] = {
    "optional.of": Function(lambda value: Optional(value, present=True)),
    "optional.none": Function(Optional, 0, 0),
    "optional.ofNonZeroValue": Function(_non_zero),
    "sets.contains": Function(_contains_all, 2, 2, _crossed),
    "sets.equivalent": Function(
        lambda left, right: _contains_all(left, right) and _contains_all(right, left), 2, 2, _crossed
    ),
    "sets.intersects": Function(
        lambda left, right: any(equal(a, b) for a in _list(left, "sets") for b in _list(right, "sets")), 2, 2, _crossed
    ),
    "math.greatest": Function(
        lambda *values: _extreme("math.greatest", _numbers(values), largest=True), 1, 8, _by_entries
    ),
    "math.least": Function(lambda *values: _extreme("math.least", _numbers(values), largest=False), 1, 8, _by_entries),
}


def _numbers(values: tuple[Any, ...]) -> list[Any]:
    return values[0] if len(values) == 1 and isinstance(values[0], list) else list(values)
