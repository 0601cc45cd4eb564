"""Defaulting: absent fields get their default, and nulls that a field does not allow are dropped or defaulted."""

from __future__ import annotations

import copy
from typing import Any

from unisono.api.structural.node import ABSENT, Node


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
