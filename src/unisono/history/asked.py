"""Parameters of questions about the history, read alike whatever answers them (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.errors import ApiError
from unisono.history.report import Window

_WEEK_SECONDS = 7 * 86400.0


def window_of(query: Mapping[str, str], now: float) -> Window:
    """The time of ``from`` and ``to``, by default the last week.

    Args:
        query: parameters of the question.
        now: seconds since 1970.

    Raises:
        ApiError: 400 where they cannot be read.

    """
    end = _seconds(query, "to", now)
    start = _seconds(query, "from", end - _WEEK_SECONDS)
    if start >= end:
        raise bad_request("from must be before to")
    return Window(round(start * 1000), round(end * 1000), round(now * 1000))


def points_of(query: Mapping[str, str]) -> int:
    """How many points a chart wants.

    Raises:
        ApiError: 400 where that is no number.

    """
    text = query.get("points", "") or "120"
    if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text)):
        raise bad_request(f"points must be a number from 1 on, and not {text!r}")
    return int(text)


def bad_request(message: str) -> ApiError:
    """The error of a question that cannot be answered as it is."""
    return ApiError(message, code=400, reason="BadRequest")


def _seconds(query: Mapping[str, str], name: str, default: float) -> float:
    text = query.get(name, "")
    try:
        found = float(text) if text else default
    except ValueError:
        raise bad_request(f"{name} must be seconds since 1970, and not {text!r}") from None
    # As far as a time can be written on the wire.
    if not 0 <= found < 253_402_300_800:
        raise bad_request(f"{name} must be seconds between 1970 and the year 10000, and not {text}")
    return found
