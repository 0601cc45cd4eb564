"""Values of an object by their paths on the wire, in structs and in JSON alike.

A path is written as error messages write it: ``spec.tasks[*].template.metadata.annotations[key]``. ``[*]`` stands for
every entry of a list, ``.*`` for every value of a map.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

import msgspec

_STEP = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")
_EACH = "*"


@lru_cache(maxsize=4096)
def steps(path: str) -> tuple[tuple[str, bool], ...]:
    """Names along a path, each with whether it stands in brackets."""
    return tuple((inside or name, bool(inside)) for inside, name in _STEP.findall(path))


def walk(obj: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Where a path leads in an object: full paths and values, without those that are absent."""
    return _walk(obj, steps(path), 0, "")


def first(obj: Any, path: str) -> Any:
    """The first value at a path; None without one."""
    return next((value for _, value in walk(obj, path)), None)


def put(value: Any, path: str, new: Any) -> None:
    """Set what a path leads to in an object's JSON; maps on the way are made. The path is a full one, as of `walk`."""
    *way, (last, _) = steps(path)
    for name, inside in way:
        at = int(name) if inside and isinstance(value, list) else name
        if isinstance(at, str) and value.get(at) is None:
            value[at] = {}
        value = value[at]
    value[last] = new


def patch_of(path: str, value: Any) -> dict[str, Any]:
    """The merge patch that sets a field; the path has no lists."""
    for name, _ in reversed(steps(path)):
        value = {name: value}
    return dict(value)


def _walk(value: Any, way: tuple[tuple[str, bool], ...], at: int, seen: str) -> Iterator[tuple[str, Any]]:
    if value is None:
        return
    if at == len(way):
        yield seen, value
        return
    name, inside = way[at]
    if name != _EACH:
        member = _get(value, name)
        if member is not None:
            yield from _walk(member, way, at + 1, _joined(seen, name, inside=inside))
    elif inside:
        for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
            yield from _walk(each, way, at + 1, f"{seen}[{index}]")
    else:
        for key, each in (value if isinstance(value, Mapping) else {}).items():
            yield from _walk(each, way, at + 1, _joined(seen, key, inside=False))


def _joined(seen: str, name: str, *, inside: bool) -> str:
    if inside:
        return f"{seen}[{name}]"
    return f"{seen}.{name}" if seen else name


def _get(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    if isinstance(value, list):
        return value[int(name)] if name.isdigit() and int(name) < len(value) else None
    if isinstance(value, msgspec.Struct):
        attribute = _attributes(type(value)).get(name)
        return getattr(value, attribute) if attribute is not None else None
    return None


@cache
def _attributes(struct: type[msgspec.Struct]) -> Mapping[str, str]:
    """Attributes of a struct by their names on the wire."""
    return dict(zip(struct.__struct_encode_fields__, struct.__struct_fields__, strict=True))
