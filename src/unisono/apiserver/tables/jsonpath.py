"""The JSONPath of printer columns: children, indexes, slices, wildcards and equality filters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

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
