"""Values of CEL that JSON does not have, and how values compare."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import total_ordering
from typing import Any
from zoneinfo import ZoneInfo

from unisono.api.quantity import QuantityError, parse_quantity

# How much an evaluation may cost, in the units of cel-go's runtime cost.

# What can be wrong with an expression, when it is compiled and when it runs.


class CompileError(ValueError):
    """The expression is not CEL, names something that does not exist, or is too long or too deep."""


class EvaluationError(Exception):
    """The expression has no value here: a key is missing, a type does not fit, a number overflows."""


class MissingError(EvaluationError):
    """A map has no such key, or a list no such index."""


def no_overload(function: str) -> EvaluationError:
    """The types of the arguments do not fit a function or operator."""
    return EvaluationError(f"no such overload: {function}")


EXPRESSION_LIMIT = 1_000_000
"""Of one evaluation; Kubernetes' ``PerCallLimit`` and ``CELSelectorExpressionMaxCost``."""
OBJECT_LIMIT = 10_000_000
"""Of all rules over one object; Kubernetes' ``RuntimeCELCostBudget``."""
_LOOKS = 20_000


class CostError(Exception):
    """An evaluation has cost or taken more than it may; no operator of the expression absorbs this."""


class Budget:
    """What is left for the evaluations of one request.

    Args:
        limit: cost units of all evaluations together.
        clock: seconds of a clock that only goes forward, looked at now and then; None for no time limit.
        seconds: time after which evaluations end.
    """

    __slots__ = ("_clock", "_ends", "left")

    def __init__(
        self, limit: int = OBJECT_LIMIT, clock: Callable[[], float] | None = None, seconds: float = 0.0
    ) -> None:
        self.left = limit
        self._clock = clock
        self._ends = clock() + seconds if clock is not None else 0.0

    def check_time(self) -> None:
        """Raise when the time is up.

        Raises:
            CostError: it is.
        """
        if self._clock is not None and self._clock() > self._ends:
            raise CostError("no further validation rules will be run due to call time exceeding the limit")


class EvaluationMeter:
    """Counts one evaluation: against the limit of an expression, and against what its budget has left."""

    __slots__ = ("_budget", "_stop", "floor", "left", "variables")

    def __init__(self, budget: Budget, variables: Mapping[str, Any]) -> None:
        self._budget = budget
        self.left: float = budget.left
        self._stop = max(0, budget.left - EXPRESSION_LIMIT)
        self.floor = self._next()
        self.variables = variables

    def spend(self, units: float) -> None:
        """Count ``units``.

        Raises:
            CostError: more than there were.
        """
        self.left -= units if units > 1 else 1
        if self.left < self.floor:
            self.look()

    def finish(self) -> None:
        """Take what was spent from the budget."""
        self._budget.left = max(0, int(self.left))

    def _next(self) -> float:
        return max(self._stop, self.left - _LOOKS)

    def look(self) -> None:
        """What ``left`` below ``floor`` means: the end, or time to look at the clock."""
        if self.left < self._stop:
            if self._stop:
                raise CostError("operation cancelled: actual cost limit exceeded")
            raise CostError("validation failed due to running out of cost budget, no further rules will be run")
        self._budget.check_time()
        self.floor = self._next()


_NUMBERS = (int, float)


class UInt(int):
    """An unsigned number of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value, as ``type(x)`` answers it."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    value: Any = None
    present: bool = False


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount such as ``1Gi``."""

    amount: Fraction

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """The amount that a text names.

        Raises:
            EvaluationError: none.
        """
        try:
            return cls(Fraction(parse_quantity(text)))
        except QuantityError as error:
            raise EvaluationError(str(error)) from None

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A version of semver.org."""

    numbers: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Semver:
        """The version that a text names.

        Raises:
            EvaluationError: none.
        """
        core, _, _ = text.partition("+")
        core, dash, pre = core.partition("-")
        parts = core.split(".")
        sound = len(text) <= 256 and len(parts) == 3 and all(_is_number(part) for part in parts)
        if not sound or (dash and not all(pre.split("."))):
            raise EvaluationError(f"invalid semantic version: {text[:64]}")
        return cls((int(parts[0]), int(parts[1]), int(parts[2])), tuple(pre.split(".")) if dash else ())

    def _key(self) -> tuple[Any, ...]:
        # A release comes after its previews; numbers come before words.
        pre = tuple((0, int(each), "") if each.isdecimal() else (1, 0, each) for each in self.pre)
        return (self.numbers, not self.pre, pre)

    def __lt__(self, other: Semver) -> bool:
        return bool(self._key() < other._key())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and (text == "0" or text[0] != "0")


def type_name(value: Any) -> str:
    """Name of a value's type in CEL."""
    match value:
        case None:
            return "null_type"
        case bool():
            return "bool"
        case UInt():
            return "uint"
        case int():
            return "int"
        case float():
            return "double"
        case str():
            return "string"
        case bytes():
            return "bytes"
        case list():
            return "list"
        case dict():
            return "map"
        case datetime():
            return "google.protobuf.Timestamp"
        case timedelta():
            return "google.protobuf.Duration"
        case Optional():
            return "optional_type"
        case Type():
            return "type"
        case _:
            return type(value).__name__


def size_of(value: Any) -> int:
    """How much there is to look at when a value is compared or copied."""
    return len(value) if isinstance(value, str | bytes | list | dict) else 1


def equal(left: Any, right: Any) -> bool:
    """``==``: values of different types differ, numbers are compared by value."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(each, right[key]) for key, each in left.items())
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        return left == right
    return type(left) is type(right) and bool(left == right)


def weight(value: Any) -> int:
    """Number of values and characters inside of a value, for the cost of comparing it."""
    match value:
        case list():
            return 1 + sum(map(weight, value))
        case dict():
            return 1 + sum(weight(each) + len(str(key)) // 10 for key, each in value.items())
        case str() | bytes():
            return 1 + len(value) // 10
        case _:
            return 1


def less(left: Any, right: Any, name: str) -> bool:
    """``<`` between values that have an order.

    Raises:
        EvaluationError: they have none.
    """
    numbers = isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS)
    if isinstance(left, bool) != isinstance(right, bool):
        raise no_overload(name)
    ordered = isinstance(left, str | bytes | datetime | timedelta | Quantity | Semver)
    if numbers or (ordered and type(left) is type(right)):
        try:
            return bool(left < right)
        except TypeError:
            raise no_overload(name) from None
    raise no_overload(name)


def checked_int(value: int) -> int:
    """An int that fits 64 bits.

    Raises:
        EvaluationError: it does not.
    """
    if not -(2**63) <= value < 2**63:
        raise EvaluationError("integer overflow")
    return value


# Timestamps and durations.

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"([0-9]{1,19}(?:\.[0-9]{0,19})?)(h|ms|us|µs|ns|m|s)")
_OFFSET = re.compile(r"([+-]?)([0-9]{2}):([0-9]{2})")
_LONGEST = 128


def parse_duration(text: str) -> timedelta | None:
    """The duration that a text such as ``1h30m`` names; None for none."""
    if len(text) > _LONGEST:
        return None
    body = text.lstrip("+-")
    if body == "0":
        return timedelta()
    parts = _DURATION.findall(body)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != body:
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return timedelta(seconds=-seconds if text.startswith("-") else seconds)


def duration(value: Any) -> timedelta:
    """``duration('1h')``."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise no_overload("duration")
    parsed = parse_duration(value)
    if parsed is None:
        raise EvaluationError(f"type conversion error from 'string' to 'duration': {value[:64]}")
    return parsed


def timestamp(value: Any) -> datetime:
    """``timestamp('2026-01-01T00:00:00Z')``, or seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    if not isinstance(value, str):
        raise no_overload("timestamp")
    if len(value) > _LONGEST or "T" not in value.upper():
        raise EvaluationError(f"type conversion error from 'string' to 'timestamp': {value[:64]}")
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def added(left: Any, right: Any) -> Any:
    """A time and a duration, in either order, or two durations."""
    if not isinstance(left, timedelta):
        left, right = right, left
    if not isinstance(left, timedelta) or not isinstance(right, datetime | timedelta):
        raise no_overload("_+_")
    return right + left


def subtracted(left: datetime | timedelta, right: Any) -> Any:
    """The duration between times, or what is before one."""
    if isinstance(left, datetime) and isinstance(right, datetime | timedelta):
        return left - right
    if isinstance(left, timedelta) and isinstance(right, timedelta):
        return left - right
    raise no_overload("_-_")


def _zone(name: Any) -> tzinfo:
    if not isinstance(name, str):
        raise no_overload("timezone")
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    if len(name) > 64:
        raise EvaluationError("unknown time zone")
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _part(name: str, read: Callable[[datetime], int], whole: Callable[[timedelta], int] | None = None) -> Any:
    def call(value: Any, zone: Any = "UTC") -> int:
        if isinstance(value, datetime):
            return read(value.astimezone(_zone(zone)))
        if isinstance(value, timedelta) and whole is not None:
            return whole(value)
        raise no_overload(name)

    return call


METHODS: dict[str, Callable[..., int]] = {
    name: _part(name, *reads)
    for name, reads in {
        "getFullYear": (lambda at: at.year,),
        "getMonth": (lambda at: at.month - 1,),
        "getDate": (lambda at: at.day,),
        "getDayOfMonth": (lambda at: at.day - 1,),
        "getDayOfWeek": (lambda at: at.isoweekday() % 7,),
        "getDayOfYear": (lambda at: at.timetuple().tm_yday - 1,),
        "getHours": (lambda at: at.hour, lambda span: int(span.total_seconds() / 3600)),
        "getMinutes": (lambda at: at.minute, lambda span: int(span.total_seconds() / 60)),
        "getSeconds": (lambda at: at.second, lambda span: int(span.total_seconds())),
        "getMilliseconds": (lambda at: at.microsecond // 1000, lambda span: int(span.total_seconds() * 1000) % 1000),
    }.items()
}
