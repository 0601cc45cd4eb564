"""The functions of CEL and those that Kubernetes adds, by name, each with what a call costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from unisono.api.cel import operators, texts, values
from unisono.api.cel import values as timestamps
from unisono.api.cel.values import (
    EvaluationError,
    Optional,
    Quantity,
    Semver,
    Type,
    UInt,
    checked_int,
    equal,
    less,
    no_overload,
    size_of,
    type_name,
    weight,
)

# Kubernetes' authorizer library: ``authorizer.group('').resource('pods').check('get').allowed()``.


@dataclass(frozen=True, slots=True)
class Authorizer:
    """A question about rights, as far as an expression has put it; the variable ``authorizer`` is an empty one.

    Attributes:
        decide: answers the whole question.
    """

    decide: Callable[[Authorizer], bool]
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    verb: str = ""


def _step(part: str) -> Callable[[Any, Any], Authorizer]:
    def call(asked: Any, value: Any) -> Authorizer:
        if not isinstance(asked, Authorizer) or not isinstance(value, str):
            raise no_overload(part)
        step: dict[str, Any] = {part: value}
        return replace(asked, **step)

    return call


def _allowed(asked: Any) -> bool:
    if not isinstance(asked, Authorizer):
        raise no_overload("allowed")
    return asked.decide(asked)


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    **{part: _step(part) for part in ("group", "resource", "namespace", "name")},
    "check": _step("verb"),
}
ANSWERS: dict[str, Callable[[Any], Any]] = {"allowed": _allowed}
# What a question costs in cel-go's estimate for Kubernetes.
COST = 350_000.0

# Conversions between types: ``int('1')``, ``string(2.5)``, ``timestamp('2026-01-01T00:00:00Z')``.

_LONGEST_NUMBER = 64


def _text_number(value: str) -> str:
    if len(value) > _LONGEST_NUMBER or not value.isascii() or value != value.strip() or "_" in value:
        raise EvaluationError(f"type conversion error from 'string': {value[:_LONGEST_NUMBER]}")
    return value


def _int(value: Any) -> int:
    match value:
        case bool():
            raise no_overload("int")
        case int():
            return checked_int(int(value))
        case float():
            if not math.isfinite(value):
                raise EvaluationError("integer overflow")
            return checked_int(int(value))
        case str():
            return checked_int(int(_text_number(value)))
        case datetime():
            return int(value.timestamp())
        case timedelta():
            return int(value / timedelta(microseconds=1)) * 1000
    raise no_overload("int")


def _uint(value: Any) -> UInt:
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        number = int(_text_number(value))
    elif isinstance(value, float) and math.isfinite(value):
        number = int(value)
    if number is None:
        raise no_overload("uint")
    if not 0 <= number < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(number)


def _double(value: Any) -> float:
    if isinstance(value, str):
        return float(_text_number(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise no_overload("double")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    truth_values = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if isinstance(value, str):
        if value in ("T", "F", "TRUE", "FALSE", "True", "False") or value in truth_values:
            return truth_values[value.lower()]
        raise EvaluationError(f"type conversion error from 'string' to 'bool': {value[:_LONGEST_NUMBER]}")
    raise no_overload("bool")


def _string(value: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
        case bytes():
            return value.decode()
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():g}s"
    raise no_overload("string")


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise no_overload("bytes")


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "uint": _uint,
    "double": _double,
    "bool": _bool,
    "string": _string,
    "bytes": _bytes,
    "timestamp": values.timestamp,
    "duration": values.duration,
}

Cost = Callable[..., float]


def by_size(*values: Any) -> float:
    """A tenth of all characters and entries, as cel-go counts traversed strings."""
    return 1 + sum(map(size_of, values)) / 10


def by_entries(*values: Any) -> float:
    """One for each value of a list or map, however deep."""
    return 1 + sum(weight(value) for value in values)


def comparing(left: Any, right: Any) -> float:
    """The smaller one decides how long a comparison takes."""
    if isinstance(left, str | bytes):
        return min(size_of(left), size_of(right)) / 10
    if isinstance(left, list | dict):
        return min(weight(left), weight(right)) if size_of(left) == size_of(right) else 0
    return 0


def searching(text: Any, part: Any = "", *_: Any) -> float:
    """Every position of the text against the part."""
    return 1 + size_of(text) / 10 * max(1.0, size_of(part) / 10)


def matching(text: Any, pattern: Any, *_: Any) -> float:
    """Every position of the text against the pattern."""
    return 1 + max(1.0, size_of(text) / 10) * max(1.0, size_of(pattern) / 4)


def within(wanted: Any, owner: Any) -> float:
    """The value against each entry of a list."""
    return 1 + (len(owner) * (1 + size_of(wanted) / 10) if isinstance(owner, list) else 0)


def crossed(left: Any, right: Any, *_: Any) -> float:
    """Each entry of one list against each of the other."""
    return 1 + size_of(left) * size_of(right)


def replacing(text: Any, old: Any = "", new: Any = "", *_: Any) -> float:
    """The text, and what is put in at each occurrence."""
    occurrences = size_of(text) / max(1, size_of(old))
    return 1 + (size_of(text) + occurrences * size_of(new)) / 10


def joining(values: Any, separator: Any = "") -> float:
    """The entries, and a separator for each."""
    return 1 + sum(1 + (size_of(each) + size_of(separator)) / 10 for each in values)


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
    optional = _some(value, "value")
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _non_zero(value: Any) -> Optional:
    plain = value is None or isinstance(value, int | float | str | bytes | list | dict)
    return Optional() if plain and not value else Optional(value, present=True)


GLOBAL: dict[str, Function] = {
    "_==_": Function(equal, 2, 2, comparing),
    "_!=_": Function(lambda left, right: not equal(left, right), 2, 2, comparing),
    "_<_": Function(partial(less, name="_<_"), 2, 2, comparing),
    "_<=_": Function(lambda left, right: less(left, right, "_<=_") or left == right, 2, 2, comparing),
    "_>_": Function(lambda left, right: less(right, left, "_>_"), 2, 2, comparing),
    "_>=_": Function(lambda left, right: less(right, left, "_>=_") or left == right, 2, 2, comparing),
    "_in_": Function(operators.is_in, 2, 2, within),
    "_+_": Function(operators.add, 2, 2, by_size),
    "_-_": Function(operators.subtract, 2, 2),
    "_*_": Function(operators.multiply, 2, 2),
    "_/_": Function(operators.divide, 2, 2),
    "_%_": Function(operators.modulo, 2, 2),
    "-_": Function(operators.negate),
    "!_": Function(operators.negation),
    "size": Function(_size),
    "type": Function(_type),
    "dyn": Function(lambda value: value),
    "matches": Function(texts.matches, 2, 2, matching),
    **{name: Function(call, cost=by_size) for name, call in CONVERSIONS.items()},
    **{name: Function(call, cost=by_size) for name, call in texts.MAKERS.items()},
    "quantity": Function(lambda value: Quantity.parse(texts.text(value, "quantity")), cost=by_size),
    "isQuantity": Function(_parses(Quantity.parse), cost=by_size),
    "semver": Function(lambda value: Semver.parse(texts.text(value, "semver")), cost=by_size),
    "isSemver": Function(_parses(Semver.parse), cost=by_size),
}
METHODS: dict[str, Function] = {
    "size": Function(_size),
    "contains": Function(texts.contains, 2, 2, searching),
    "startsWith": Function(texts.starts_with, 2, 2, lambda text, part: 1 + size_of(part) / 10),
    "endsWith": Function(texts.ends_with, 2, 2, lambda text, part: 1 + size_of(part) / 10),
    "matches": Function(texts.matches, 2, 2, matching),
    "find": Function(texts.find, 2, 2, matching),
    "findAll": Function(texts.find_all, 2, 3, matching),
    "split": Function(texts.split, 2, 3, lambda text, *_: 1 + size_of(text)),
    "join": Function(texts.join, 1, 2, joining),
    "replace": Function(texts.replace, 3, 4, replacing),
    "lowerAscii": Function(texts.lower_ascii, cost=by_size),
    "upperAscii": Function(texts.upper_ascii, cost=by_size),
    "trim": Function(texts.trim, cost=by_size),
    "reverse": Function(texts.reverse, cost=by_size),
    "substring": Function(texts.substring, 2, 3, lambda text, *_: by_size(text)),
    "charAt": Function(texts.char_at, 2, 2),
    "format": Function(texts.form, 2, 2, lambda text, values: by_size(text) + by_entries(values)),
    "indexOf": Function(operators.index_of, 2, 3, lambda value, *more: searching(value, *more) + size_of(value)),
    "lastIndexOf": Function(
        operators.last_index_of, 2, 3, lambda value, *more: searching(value, *more) + size_of(value)
    ),
    "isSorted": Function(operators.is_sorted, cost=by_entries),
    "sum": Function(operators.total, cost=by_entries),
    "min": Function(partial(operators.extreme, "min", largest=False), cost=by_entries),
    "max": Function(partial(operators.extreme, "max", largest=True), cost=by_entries),
    "flatten": Function(operators.flatten, cost=by_entries),
    "distinct": Function(operators.distinct, cost=lambda values: 1 + size_of(values) * weight(values)),
    "slice": Function(operators.part, 3, 3, lambda values, *_: 1 + size_of(values)),
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
    **{name: Function(call, cost=by_size) for name, call in texts.METHODS.items()},
    **{name: Function(call, 2, 2, by_size) for name, call in texts.TWO.items()},
    **{name: Function(call, 2, 2) for name, call in STEPS.items()},
    **{name: Function(call, cost=lambda _: COST) for name, call in ANSWERS.items()},
}
QUALIFIED: dict[str, Function] = {
    "optional.of": Function(lambda value: Optional(value, present=True)),
    "optional.none": Function(Optional, 0, 0),
    "optional.ofNonZeroValue": Function(_non_zero),
    "sets.contains": Function(operators.contains_all, 2, 2, crossed),
    "sets.equivalent": Function(
        lambda left, right: operators.contains_all(left, right) and operators.contains_all(right, left), 2, 2, crossed
    ),
    "sets.intersects": Function(operators.intersects, 2, 2, crossed),
    "math.greatest": Function(
        lambda *values: operators.extreme("math.greatest", operators.numbers(values), largest=True), 1, 8, by_entries
    ),
    "math.least": Function(
        lambda *values: operators.extreme("math.least", operators.numbers(values), largest=False), 1, 8, by_entries
    ),
}
