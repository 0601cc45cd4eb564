"""Durations as Go writes them: ``1h30m``, ``90s``, ``1.5h``."""

from __future__ import annotations

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|us|µs|ns|s)")


def parse_duration(text: str) -> float:
    """Seconds; ValueError when the text is no duration."""
    body = text.removeprefix("-").removeprefix("+")
    if body == "0":
        return 0.0
    if not body or _PART.sub("", body):
        raise ValueError(f"{text!r} is no duration such as 1h30m")
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(body))
    return -total if text.startswith("-") else total


def duration_or_none(text: str | None) -> float | None:
    """Seconds, None for a missing or unreadable text."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError:
        return None
