"""Sets of field paths, and their form on the wire: the nested keys of ``FieldsV1``.

A path is a tuple of elements as ``FieldsV1`` writes them: ``f:<name>`` a field or a map's key, ``k:<json>`` the list
item with these keys, ``v:<json>`` a value of a set. A set of fields is a frozenset of paths.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

Path = tuple[str, ...]
Paths = frozenset[Path]
Tree = dict[str, Any]

# Marks a node that is a member itself, where it has children too.
MEMBER = "."
NONE: Paths = frozenset()
_DEEPEST = 100
# Sets of more paths, or of a longer encoding, are not remembered: each of them would keep megabytes.
_REMEMBERED_PATHS = 500
_REMEMBERED_BYTES = 16 * 1024
_ENCODE = msgspec.json.Encoder(order="sorted").encode


def field(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def item(keys: dict[str, Any]) -> str:
    """The element of a list item with these key fields."""
    return f"k:{_ENCODE(keys).decode()}"


def value(content: Any) -> str:
    """The element of a value in a set."""
    return f"v:{_ENCODE(content).decode()}"


def to_tree(paths: Paths) -> Tree:
    """The nested form of a set: a leaf is written ``{}``, a member with children carries the mark.

    Pods of one template have the same owners, so answers are kept: do not change them.
    """
    return _known_tree(paths) if len(paths) <= _REMEMBERED_PATHS else _tree(paths)


@lru_cache(maxsize=1024)
def _known_tree(paths: Paths) -> Tree:
    return _tree(paths)


def _tree(paths: Paths) -> Tree:
    root: Tree = {}
    # Sorted, so that a member comes before what is below it, and equal sets give equal bytes.
    for path in sorted(paths):
        node = root
        for element in path[:-1]:
            below = node.get(element)
            if below is None:
                below = node[element] = {}
            elif not below:
                below[MEMBER] = {}
            node = below
        node[path[-1]] = {}
    return root


def from_tree(tree: Any) -> Paths:
    """The set of a nested form.

    Raises:
        ValueError: it is no ``FieldsV1``.

    """
    try:
        encoded = _ENCODE(tree)
        return _known(encoded) if len(encoded) <= _REMEMBERED_BYTES else _walked(tree)
    except (TypeError, RecursionError):  # no JSON: the walk says what is wrong
        return _walked(tree)


@lru_cache(maxsize=1024)
def _known(encoded: bytes) -> Paths:
    return _walked(msgspec.json.decode(encoded))


def _walked(tree: Any) -> Paths:
    found: list[Path] = []
    _collect(tree, (), _DEEPEST, found)
    return frozenset(found)


def _collect(node: Any, path: Path, depth: int, found: list[Path]) -> None:
    if not isinstance(node, dict) or not depth:
        raise ValueError("fieldsV1 must be nested objects")
    if path and (not node or MEMBER in node):
        found.append(path)
    for key, child in node.items():
        if key != MEMBER:
            _collect(child, (*path, key if key[:2] == "f:" else _canonical(key)), depth - 1, found)


def _canonical(element: str) -> str:
    mark, content = element[:2], element[2:]
    if mark == "f:":
        return element
    if mark == "k:":
        keys = msgspec.json.decode(content)
        if not isinstance(keys, dict):
            raise ValueError(f"{element} does not name key fields")
        return item(keys)
    if mark == "v:":
        return value(msgspec.json.decode(content))
    if mark == "i:":
        return element
    raise ValueError(f"{element} is no path element")


def text(path: Path) -> str:
    """The path as conflicts show it: ``.spec.containers[name="main"].image``."""
    return "".join(map(_element_text, path))


def _element_text(element: str) -> str:
    mark, content = element[:2], element[2:]
    if mark == "f:":
        return f".{content}"
    if mark == "k:":
        keys = msgspec.json.decode(content)
        return "[" + ",".join(f"{name}={_ENCODE(keys[name]).decode()}" for name in sorted(keys)) + "]"
    return f"[={content}]" if mark == "v:" else f"[{content}]"
