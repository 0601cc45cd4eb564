"""Times on the wire: RFC 3339 in UTC, whole seconds (``Time``) or microseconds (``MicroTime``)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(microseconds=round(seconds * 1_000_000))


def rfc3339(seconds: float) -> str:
    """``2026-11-20T16:33:50Z`` for seconds since 1970; the fraction is cut off."""
    return _whole(round(seconds * 1_000_000) // 1_000_000)


@lru_cache(maxsize=64)
def _whole(seconds: int) -> str:
    # Thousands of objects are written within one second.
    return _moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def rfc3339_micro(seconds: float) -> str:
    """``2026-11-20T16:33:50.123456Z`` for seconds since 1970."""
    return _moment(seconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def parse_time(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time with any offset.

    Raises:
        ValueError: the text is not a time with an offset.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text.upper():
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-11-20T16:33:50Z")
    return (moment - _EPOCH) / timedelta(seconds=1)


def time_or(text: str | None, default: float = 0.0) -> float:
    """Seconds since 1970 of a time in an object; ``default`` for a missing text and for one that is no time."""
    if not text:
        return default
    try:
        return parse_time(text)
    except ValueError:
        return default


# The grammar of Go's time.RFC3339: upper-case letters, no leap second, a fraction of any length.
_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def millis(text: str | None) -> int:
    """Milliseconds since 1970 of a time on the wire; 0 for none, and for what is none."""
    return round(time_or(text) * 1000)


def is_time(text: str) -> bool:
    """Whether Kubernetes and ``parse_time`` can both read the text as a time.

    Like ``metav1.Time``, this refuses the leap second ``23:59:60Z``.
    """
    if _RFC3339.fullmatch(text) is None:
        return False
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
# One way only to read each text: two would take the square of the digits, while everything else waits.
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"[-+]?(?:0|(?:{_DURATION_PART.pattern})+)")
_LONGEST_DURATION = 2**63 / 1e9
_SHOWN = 64
# Annotations that are longer are read again and again, while everything else waits.
_MOST_CHARACTERS = 256


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as ``1h30m``, ``5m`` or ``0``.

    Raises:
        ValueError: the text is not a duration, or is one of more than 292 years, which Go cannot hold.
    """
    if _DURATION.fullmatch(text):
        seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in _DURATION_PART.findall(text))
        if seconds < _LONGEST_DURATION:
            return -seconds if text.startswith("-") else seconds
    raise ValueError(f'time: invalid duration "{text if len(text) <= _SHOWN else text[:_SHOWN] + "..."}"')


def duration_or_none(text: str | None) -> float | None:
    """Seconds of a Go duration, None for a missing or unreadable text, and for one that is far too long."""
    if text is None or len(text) > _MOST_CHARACTERS:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        return None


def format_duration(seconds: float) -> str:
    """The duration as Go prints it, to the second: ``42s``, ``5m0s``, ``1h0m3s``; negative counts as zero."""
    whole = max(0, int(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
