"""Conversions between types: ``int('1')``, ``string(2.5)``, ``timestamp('2026-01-01T00:00:00Z')``."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from unisono.api.cel import timestamps
from unisono.api.cel.errors import EvaluationError, no_overload
from unisono.api.cel.values import UInt, checked_int

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
    found = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        found = int(_text_number(value))
    elif isinstance(value, float) and math.isfinite(value):
        found = int(value)
    if found is None:
        raise no_overload("uint")
    if not 0 <= found < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return UInt(found)


def _double(value: Any) -> float:
    if isinstance(value, str):
        return float(_text_number(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise no_overload("double")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
    if isinstance(value, str):
        if value in ("T", "F", "TRUE", "FALSE", "True", "False") or value in known:
            return known[value.lower()]
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
    "timestamp": timestamps.timestamp,
    "duration": timestamps.duration,
}
