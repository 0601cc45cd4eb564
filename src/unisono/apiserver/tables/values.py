"""What a table is made of: columns, and small renderings that many tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# What a table is: column definitions and a function that makes one object's cells.

Row = dict[str, Any]
Cells = Callable[[Row, float], list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """One ``TableColumnDefinition``; priority above 0 shows only with ``-o wide``."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> dict[str, Any]:
        """The column as it goes on the wire."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Layout:
    """How a kind is shown.

    Attributes:
        columns: left to right.
        cells: object (decoded JSON) and now (Unix seconds) to one cell per column.
    """

    columns: tuple[Column, ...]
    cells: Cells


NAME = Column("Name", format="name", description="Name must be unique within a namespace.")
AGE = Column("Age", description="Time since the object was created.")


def wide(name: str, description: str = "", *, type: str = "string") -> Column:
    """A column that only ``-o wide`` shows."""
    return Column(name, type=type, description=description, priority=1)


# Small renderings that many tables share: ages, nested lookups, joined lists.

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_YEAR = 365 * _DAY


def get(value: Any, *path: str) -> Any:
    """Walk nested maps; None where a step is missing."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def items(value: Any, *path: str) -> list[Any]:
    """The list at a path, empty when missing."""
    entries = get(value, *path)
    return entries if isinstance(entries, list) else []


def mapping(value: Any, *path: str) -> dict[str, Any]:
    """The map at a path, empty when missing."""
    entries = get(value, *path)
    return entries if isinstance(entries, dict) else {}


def text(value: Any, *path: str, default: str = "") -> str:
    """The value at a path as text."""
    content = get(value, *path)
    return default if content is None or content == "" else str(content)


def name_of(obj: Row) -> str:
    """The name of an object."""
    return text(obj, "metadata", "name")


def age_of(obj: Row, now: float) -> str:
    """How long ago an object was made."""
    return age(get(obj, "metadata", "creationTimestamp"), now)


def join(values: list[Any], default: str = NONE) -> str:
    """Comma-separated, or ``default`` when empty."""
    return ",".join(str(value) for value in values) if values else default


def seconds_of(timestamp: Any) -> float | None:
    """Unix seconds of an RFC 3339 text; None when it is missing or unreadable."""
    if not isinstance(timestamp, str):
        return None
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except ValueError:
        return None


def age(timestamp: Any, now: float) -> str:
    """How long ago, as kubectl writes ages."""
    then = seconds_of(timestamp)
    return UNKNOWN if then is None else duration(now - then)


def duration(seconds: float) -> str:
    """A span of time in at most two units, coarser the longer it is: ``76s``, ``5m3s``, ``4h2m``, ``3d``.

    The thresholds are those of Kubernetes' ``duration.HumanDuration``, so that columns look the same.
    """
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, big: int, big_unit: str, small: int, small_unit: str) -> str:
    rest = whole % big // small
    return f"{whole // big}{big_unit}" + (f"{rest}{small_unit}" if rest else "")
