"""Durations as Kubernetes objects write them: Go's notation, such as ``1h0m30s`` or ``1.5s``."""

from __future__ import annotations

import re

from unisono.errors import UnisonoError

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


class DurationError(UnisonoError):
    """A text is no duration."""


def parse_duration(text: str) -> float:
    """Seconds of a Go duration; ``0`` and signs are accepted. Raises DurationError."""
    sign, rest = (-1.0, text[1:]) if text[:1] == "-" else (1.0, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    total, position = 0.0, 0
    while part := _PART.match(rest, position):
        total += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    if not rest or position != len(rest):
        raise DurationError(f"{text!r} is no duration: write it like 30s, 5m or 1h30m.")
    return sign * total


def format_duration(seconds: float) -> str:
    """The duration as Go prints it, to the second: ``42s``, ``5m0s``, ``1h0m3s``; negative counts as zero."""
    whole = max(0, int(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
