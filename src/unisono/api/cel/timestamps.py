"""Timestamps and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from unisono.api.cel.errors import EvaluationError, no_overload

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
    found = parse_duration(value)
    if found is None:
        raise EvaluationError(f"type conversion error from 'string' to 'duration': {value[:64]}")
    return found


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
    found = datetime.fromisoformat(value)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


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
        "getMilliseconds": (
            lambda at: at.microsecond // 1000,
            lambda span: int(span.total_seconds() * 1000) % 1000,
        ),
    }.items()
}
