"""Tables of custom resources: the name, then the kind's printer columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from unisono.api.crds import Column as PrinterColumn
from unisono.api.crds import columns as printer_columns
from unisono.api.kind import Kind
from unisono.api.kinds import find_resource
from unisono.apiserver.custom.kinds import CustomKind
from unisono.apiserver.tables.core import DEFAULT
from unisono.apiserver.tables.values import NAME, Column, Layout, Row, age, get

# The JSONPath of printer columns: children, indexes, slices, wildcards and equality filters.

Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""
    \.(?P<child>(?:\\.|[^.\[\]\\])+)
  | \[(?P<index>-?\d+)\]
  | \[(?P<start>-?\d*):(?P<end>-?\d*)(?::(?P<stride>[1-9]\d*)?)?\]
  | \[\*\] | \.\*
  | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
  | \[\?\(\s*@(?P<field>(?:\.[\w-]+)+)\s*==(?P<value>[^)]+)\)\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Callable[[Any], Any]:
    """A function that answers the first value at ``path`` (``.status.state.phase``), or None.

    Raises:
        ValueError: the path uses something that printer columns do not.

    """
    steps = tuple(_steps(path.strip().removeprefix("{").removesuffix("}").removeprefix("$")))

    def find(value: Any) -> Any:
        values: Iterable[Any] = (value,)
        for step in steps:
            values = [found for one in values for found in step(one)]
        return next(iter(values), None)

    return find


def _steps(path: str) -> Iterator[Step]:
    position = 0
    while position < len(path):
        match = _TOKEN.match(path, position)
        if match is None:
            raise ValueError(f"JSONPath {path!r}: cannot read {path[position:]!r}")
        position = match.end()
        yield _step(match)


def _step(match: re.Match[str]) -> Step:
    if match["field"]:
        return _filter(match["field"].split(".")[1:], _literal(match["value"].strip()))
    if match["index"]:
        return _index(int(match["index"]))
    if match["start"] is not None:
        return _slice(*(int(match[part]) if match[part] else None for part in ("start", "end", "stride")))
    if match["quoted"] is not None:
        return _child(match["quoted"])
    if match["child"] and match["child"] != "*":
        return _child(re.sub(r"\\(.)", r"\1", match["child"]))
    return _all


def _child(key: str) -> Step:
    return lambda value: (value[key],) if isinstance(value, dict) and key in value else ()


def _index(index: int) -> Step:
    return lambda value: (value[index],) if isinstance(value, list) and -len(value) <= index < len(value) else ()


def _slice(start: int | None, end: int | None, stride: int | None) -> Step:
    return lambda value: value[start:end:stride] if isinstance(value, list) else ()


def _all(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _filter(path: list[str], wanted: Any) -> Step:
    def matches(value: Any) -> bool:
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return False
            value = value[key]
        return bool(value == wanted)

    return lambda value: [one for one in value if matches(one)] if isinstance(value, list) else ()


def _literal(text: str) -> Any:
    if text[:1] in {"'", '"'}:
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


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
