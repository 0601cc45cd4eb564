"""Output: tables as the server renders them, YAML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import click

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
"""What is accepted where the server shall render a table."""

# Times for people: ``45 s``, ``3 min``, ``2 h 5 min``, ``4 d`` (pure).


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
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


# Times as people write them: ``now``, ``-7d``, ``2026-11-01``, ``2026-11-01T08:30`` (pure).

# As people write it, and as Slurm does: now-7days.
_AGO = re.compile(
    r"(?:now-|-)?(\d{1,6}(?:\.\d{1,6})?)(s|min|m|h|d|w|y)|now-(\d{1,6})(?:(second|minute|hour|day|week)s?)?"
)
_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0, "y": 365 * 86400.0}
_DAYS = {"today": 0, "yesterday": -1}
FORMS = (
    "now, today, yesterday, -7d (of s, m, h, d, w, y), 2026-11, 2026-11-01, 2026-11-01T08:30 or 2026-11-01T08:30:00Z"
)


def moment_of_text(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Seconds since 1970.

    Args:
        text: one of ``FORMS``; a time without an offset is of ``zone``, a date is its midnight.
        now: seconds since 1970.
        zone: where the user is; None for that of this machine.

    Raises:
        ValueError: the text is no time; the message says which there are.
    """
    word = text.strip().lower()
    if word == "now":
        return now
    if match := _AGO.fullmatch(word):
        return now - float(match[1] or match[3]) * _UNITS[match[2] or (match[4] or "s")[0]]
    try:
        if word in _DAYS:
            there = datetime.fromtimestamp(now, UTC).astimezone(zone)
            day = there.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + timedelta(days=_DAYS[word])
            return _of(day, zone)
        if re.fullmatch(r"\d{4}-\d\d", word):
            word += "-01"
        return _of(datetime.fromisoformat(word.upper()), zone)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time: give {FORMS}") from None


def _of(moment: datetime, zone: tzinfo | None) -> float:
    if moment.tzinfo is None:
        # Without a zone Python takes that of the machine.
        moment = moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
    return moment.timestamp()


# What a terminal obeys rather than shows: control characters of one byte, and marks that turn the text around.
_OBEYED = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]")


def print_json(value: Any) -> None:
    """Indented JSON on stdout."""
    click.echo(json.dumps(value, indent=2))


def print_yaml(value: Any) -> None:
    """YAML on stdout, keys in the order of the object."""
    from unisono.api.yaml import dump

    click.echo(dump(value), nl=False)


def without_managed_fields(value: dict[str, Any]) -> dict[str, Any]:
    """The object without ``metadata.managedFields``, which say who set what and are long."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return value
    kept = {key: each for key, each in metadata.items() if key != "managedFields"}
    return {key: kept if key == "metadata" else each for key, each in value.items()}


def columns(
    headers: Sequence[str], rows: Iterable[Sequence[Any]], *, header: bool = True, empty: str = "<none>"
) -> list[str]:
    """Lines of a plain table, three blanks between columns, as kubectl prints it.

    Args:
        headers: titles of the columns.
        rows: their cells.
        header: print the titles.
        empty: what stands for a cell without a value.
    """
    cells = [[_cell(value) or empty for value in row] for row in rows]
    shown = ([[name.upper() for name in headers]] if header else []) + cells
    widths = [max((len(row[index]) for row in shown), default=0) for index in range(len(headers))]
    return ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def table_lines(table: dict[str, Any], *, wide: bool = False, namespaces: bool = False) -> list[str]:
    """Lines of a ``meta.k8s.io`` Table."""
    definitions = table.get("columnDefinitions") or []
    shown = [index for index, column in enumerate(definitions) if wide or not column.get("priority")]
    headers = [definitions[index]["name"] for index in shown]
    rows = [[row["cells"][index] for index in shown] for row in table.get("rows") or []]
    if namespaces:
        headers = ["Namespace", *headers]
        names = [(row.get("object") or {}).get("metadata", {}).get("namespace", "") for row in table.get("rows") or []]
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    # The server says "<none>" where it wants it said; kubectl leaves what is empty blank.
    return columns(headers, rows, empty="")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return visible(str(value))


def visible(text: str) -> str:
    """Text of others on one line, without anything that a terminal obeys."""
    return _OBEYED.sub(_visible, text)


def _visible(found: re.Match[str]) -> str:
    r"""``\\x1b`` or ``\\u202e``."""
    return found[0].encode("unicode_escape").decode()
