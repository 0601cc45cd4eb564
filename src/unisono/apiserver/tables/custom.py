"""Tables of custom resources: the name, then the kind's printer columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unisono.api.columns import Column as PrinterColumn
from unisono.api.columns import columns as printer_columns
from unisono.api.kind import Kind
from unisono.api.kinds import find_resource
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.tables.columns import NAME, Column, Layout, Row
from unisono.apiserver.tables.core import DEFAULT
from unisono.apiserver.tables.jsonpath import compile_path
from unisono.apiserver.tables.values import age, get

Reader = Callable[[Row, float], Any]


def custom_layout(kind: Kind[Any]) -> Layout:
    """The layout of a custom kind; name and age where it declares no columns."""
    if isinstance(kind, CustomKind):
        declared = kind.details.columns
    else:
        declared = printer_columns(find_resource(kind.group, kind.version, kind.plural) or kind)
    return layout_of(declared) if declared else DEFAULT


def layout_of(declared: Sequence[PrinterColumn]) -> Layout:
    """The layout of printer columns; dates are shown as ages, as the API server does for custom resources."""
    readers = [_reader(column) for column in declared]
    shown = [Column(c.name, c.type, c.format, c.description, c.priority) for c in declared]

    def cells(obj: Row, now: float) -> list[Any]:
        return [get(obj, "metadata", "name"), *(reader(obj, now) for reader in readers)]

    return Layout((NAME, *shown), cells)


def _reader(column: PrinterColumn) -> Reader:
    try:
        find: Callable[[Any], Any] = compile_path(column.json_path)
    except ValueError:
        # A definition may hold any path that begins with a dot; one that cannot be read shows nothing.
        return lambda _obj, _now: None
    convert: Reader = _CONVERTERS.get(column.type, _plain)

    def read(obj: Row, now: float) -> Any:
        value = find(obj)
        return None if value is None else convert(value, now)

    return read


def _integer(value: Any, _now: float) -> Any:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value)
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else None


def _number(value: Any, _now: float) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: float) -> Any:
    return value if isinstance(value, bool) else None


def _plain(value: Any, _now: float) -> Any:
    return value if isinstance(value, str | dict | list) else str(value)


_CONVERTERS: dict[str, Reader] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": age,
    "string": _plain,
}
