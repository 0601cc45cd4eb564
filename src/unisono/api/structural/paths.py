"""Simple JSON paths that name a field of a schema: ``.spec.size``, ``.metadata.labels['a.b']``."""

from __future__ import annotations

import re

from unisono.api.structural.node import Node

_TOKEN = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")


class PathError(ValueError):
    """The path names no field of the schema."""


def field_path(path: str, node: Node, *, brackets: bool = True) -> tuple[list[str], str, Node]:
    """Follow a path through a schema.

    Returns:
        The names, the path as errors show it, and the schema of the field.

    Raises:
        PathError: the path is malformed or names no field of the schema.

    """
    names: list[str] = []
    shown, position = "", 0
    while position < len(path):
        found = _TOKEN.match(path, position)
        if found is None:
            raise PathError(f"expected [ or . but got: {path[position:]}")
        if found[2] is not None and not brackets:
            raise PathError("array notation is not allowed")
        name = found[1] if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2])
        named = bool(node.properties)
        below = node.properties.get(name) if named else node.additional
        if below is None:
            raise PathError("does not refer to a valid field")
        node, position = below, found.end()
        shown += (f".{name}" if shown else name) if named else f"[{name}]"
        names.append(name)
    return names, shown, node
