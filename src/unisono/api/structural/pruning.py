"""What a schema makes of a value: fields that it does not know are dropped, and absent ones get their defaults."""

from __future__ import annotations

import copy
from typing import Any

from unisono.api.structural.node import ABSENT, Node

META_FIELDS = frozenset(("apiVersion", "kind", "metadata"))


def prune(node: Node | None, value: Any, *, root: bool = False) -> list[str]:
    """Drop unknown fields of ``value`` in place.

    Args:
        node: the schema; None knows no field.
        value: decoded JSON.
        root: the value is a whole object, whose apiVersion, kind and metadata are always known.

    Returns:
        Paths of what was dropped, such as ``spec.tasks[0].bogus``, sorted.

    """
    dropped: list[str] = []
    _prune(node, value, "", dropped, whole=root)
    return sorted(dropped)


def _prune(node: Node | None, value: Any, path: str, dropped: list[str], *, whole: bool = False) -> None:
    preserve = node is not None and node.preserve
    if isinstance(value, dict):
        known = META_FIELDS if node is not None and (node.embedded or whole) else frozenset()
        for name in list(value):
            if name in known:
                continue
            at = f"{path}.{name}" if path else name
            below = node.properties.get(name) if node is not None else None
            if below is not None:
                _prune(below, value[name], at, dropped)
            elif node is not None and (node.additional is not None or node.open is not None):
                _prune(node.additional, value[name], at, dropped)
            elif not preserve:
                dropped.append(at)
                del value[name]
    elif isinstance(value, list):
        items = node.items if node is not None else None
        if preserve and items is None:
            return
        for index, each in enumerate(value):
            if preserve and items is not None:
                _skip(items, each, f"{path}[{index}]", dropped)
            else:
                _prune(items, each, f"{path}[{index}]", dropped)


def _skip(node: Node, value: Any, path: str, dropped: list[str]) -> None:
    """The items of a preserved list are preserved themselves; what their schema names is pruned by it."""
    if isinstance(value, dict):
        for name in list(value):
            if node.embedded and name in META_FIELDS:
                continue
            below = node.child(name)
            if below is not None:
                _prune(below, value[name], f"{path}.{name}", dropped)
    elif isinstance(value, list) and node.items is not None:
        for index, each in enumerate(value):
            _skip(node.items, each, f"{path}[{index}]", dropped)


def drop_nulls(node: Node | None, value: Any) -> None:
    """Drop, in place, nulls of object fields that are not nullable and have no default."""
    if isinstance(value, dict):
        for name in list(value):
            below = node.child(name) if node is not None else None
            if value[name] is None and below is not None and not below.nullable and below.default is ABSENT:
                del value[name]
            else:
                drop_nulls(below, value[name])
    elif isinstance(value, list):
        for each in value:
            drop_nulls(node.items if node is not None else None, each)


def add_defaults(node: Node | None, value: Any) -> None:
    """Fill ``value`` in place with copies of the schema's defaults; nulls that are not allowed count as absent."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, below in node.properties.items():
            if below.default is not ABSENT and (name not in value or _refused(value[name], below)):
                value[name] = copy.deepcopy(below.default)
        for name in value:
            _one(node.child(name), value, name)
    elif isinstance(value, list):
        for index in range(len(value)):
            _one(node.items, value, index)


def _one(node: Node | None, values: Any, key: Any) -> None:
    if node is None:
        return
    if _refused(values[key], node) and node.default is not ABSENT:
        values[key] = copy.deepcopy(node.default)
    add_defaults(node, values[key])


def _refused(value: Any, node: Node) -> bool:
    return value is None and not node.nullable
