"""Lists that are sets or maps: no member, or no key, twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unisono.api.field_error import FieldError, duplicate, invalid
from unisono.api.structural.node import Node

_ENCODE = msgspec.json.Encoder(order="deterministic").encode
_UNSET = object()


def check_lists(node: Node | None, value: Any, path: str = "") -> Iterator[FieldError]:
    """Every member of a set, or key of a map list, that is there more than once; told at its second place."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, each in value.items():
            below = node.properties.get(name)
            if below is not None:
                yield from check_lists(below, each, f"{path}.{name}" if path else name)
            elif node.additional is not None:
                yield from check_lists(node.additional, each, f"{path}[{name}]")
    elif isinstance(value, list):
        if node.list_type == "set":
            yield from _repeated(value, value, path)
        elif node.list_type == "map":
            yield from _map_list(node, value, path)
        for index, each in enumerate(value):
            yield from check_lists(node.items, each, f"{path}[{index}]")


def map_key(node: Node, item: Any) -> dict[str, Any]:
    """The fields of an item of a map list that are its key."""
    return {name: item[name] for name in node.list_map_keys if name in item} if isinstance(item, dict) else {}


def identity(value: Any) -> Any:
    """Equal for equal JSON values only: 1 and true differ, and so do 1 and "1"."""
    return value if isinstance(value, str) else _ENCODE(value)


def _map_list(node: Node, value: list[Any], path: str) -> Iterator[FieldError]:
    for index, each in enumerate(value):
        if each is not None and not isinstance(each, dict):
            yield invalid(f"{path}[{index}]", each, "must be an object for an array of list-type map")
            return
    keys = [map_key(node, each) for each in value]
    yield from _repeated(keys, keys, path)


def _repeated(members: list[Any], shown: list[Any], path: str) -> Iterator[FieldError]:
    seen: dict[Any, int] = {}
    for index, each in enumerate(members):
        times = seen[identity(each)] = seen.get(identity(each), 0) + 1
        if times == 2:
            yield duplicate(f"{path}[{index}]", shown[index])
