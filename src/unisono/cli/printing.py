"""Output: tables as the server renders them, YAML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import click

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
