"""Times for people: ``45 s``, ``3 min``, ``2 h 5 min``, ``4 d``; and ages of objects (pure)."""

from __future__ import annotations

from datetime import UTC, datetime


def duration_text(seconds: float) -> str:
    """A duration in the unit that suits it."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 48 * 3600:
        hours, minutes = whole // 3600, whole % 3600 // 60
        return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"
    return f"{whole // 86400} d"


def clock_text(seconds: float) -> str:
    """``1:05`` or ``2:01:05``."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole % 3600 // 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def moment(text: object) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None for what is none."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def age_text(since: object, now: float) -> str:
    """How long ago a time of an object is; empty where it has none."""
    then = moment(since)
    return "" if then is None else duration_text(now - then)
