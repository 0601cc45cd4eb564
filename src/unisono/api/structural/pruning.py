"""Pruning: fields that the schema does not know are dropped, except where it preserves them."""

from __future__ import annotations

from typing import Any

from unisono.api.structural.node import Node

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
