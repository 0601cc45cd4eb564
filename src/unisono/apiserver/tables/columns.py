"""What a table is: column definitions and a function that makes one object's cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
