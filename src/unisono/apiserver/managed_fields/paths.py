"""Sets of field paths: how values merge by their schemas, which fields a value has, and in which two values differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from unisono.apiserver.failures import bad_request

# Sets of field paths, and their form on the wire: the nested keys of ``FieldsV1``.
#
# A path is a tuple of elements as ``FieldsV1`` writes them: ``f:<name>`` a field or a map's key, ``k:<json>`` the list
# item with these keys, ``v:<json>`` a value of a set. A set of fields is a frozenset of paths.

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


def field_step(name: str) -> str:
    """The element of a field."""
    return f"f:{name}"


def item_step(keys: dict[str, Any]) -> str:
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
    collected: list[Path] = []
    _collect(tree, (), _DEEPEST, collected)
    return frozenset(collected)


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
        return item_step(keys)
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


# How values merge, read from OpenAPI schemas: which maps and lists are one field, and what names a list item.
#
# Without word from the schema maps are granular (each key is a field of its own) and lists atomic (one field).

Schema = dict[str, Any]
_ANY: Schema = {}


def child(schema: Schema, name: str) -> Schema:
    """The schema of a field or of a map's value."""
    field_schema = schema.get("properties", _ANY).get(name)
    if field_schema is None:
        field_schema = schema.get("additionalProperties")
    return field_schema if isinstance(field_schema, dict) else _ANY


def declared(schema: Schema, name: str) -> bool:
    """Whether ``name`` is a field of a struct, and not a key of a map."""
    return name in schema.get("properties", _ANY)


def items(schema: Schema) -> Schema:
    """The schema of a list's items."""
    item_schema = schema.get("items")
    return item_schema if isinstance(item_schema, dict) else _ANY


def atomic(value: Any, schema: Schema) -> bool:
    """Whether the value is one field, whatever it holds."""
    if isinstance(value, dict):
        return bool(schema.get("x-kubernetes-map-type") == "atomic")
    if isinstance(value, list):
        return bool(schema.get("x-kubernetes-list-type", "atomic") == "atomic")
    return True


def element(item: Any, schema: Schema) -> str:
    """The path element of an item of the associative list ``schema``; absent keys take their defaults.

    Raises:
        ApiError: 400 when the item cannot be told from others.
    """
    if schema.get("x-kubernetes-list-type") == "set":
        if isinstance(item, dict | list) or item is None:
            raise bad_request("a list that is a set must hold plain values")
        return value(item)
    if not isinstance(item, dict):
        raise bad_request("associative list with keys may not have non-map elements")
    names: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    properties = items(schema).get("properties", _ANY)
    keys = {}
    for name in names:
        key_value = item.get(name)
        if key_value is None:
            key_value = properties.get(name, _ANY).get("default")
        if key_value is not None:
            keys[name] = key_value
    if not keys:
        listed = " ".join(f'"{name}"' for name in names)
        raise bad_request(
            f"associative list with keys has an element that omits all key fields [{listed}] "
            "(and doesn't have default values for any key fields)"
        )
    return item_step(keys)


def index(values: list[Any], schema: Schema) -> dict[str, list[Any]]:
    """Items of an associative list by path element, in order; duplicates stay together."""
    by_element: dict[str, list[Any]] = {}
    for each in values:
        by_element.setdefault(element(each, schema), []).append(each)
    return by_element


@dataclass(slots=True)
class Changes:
    """Fields that one value has and the other has not, and fields whose values differ."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def written(self) -> set[Path]:
        """Fields that the new value gives."""
        return self.added | self.modified

    def without(self, ignored: Callable[[Path], bool]) -> Changes:
        """The changes outside of the fields that ``ignored`` names."""
        kept = ({path for path in each if not ignored(path)} for each in (self.added, self.modified, self.removed))
        return Changes(*kept)

    def __bool__(self) -> bool:
        """True when anything differs."""
        return bool(self.added or self.modified or self.removed)


def compare(old: Any, new: Any, schema: Schema) -> Changes:
    """What happened between two values of one schema.

    Raises:
        ApiError: 400 when an item of an associative list has no key.
    """
    changes = Changes()
    _compare(old, new, schema, (), changes)
    return changes


def _compare(old: Any, new: Any, schema: Schema, path: Path, changes: Changes) -> None:
    if old == new:
        return
    if type(old) is not type(new) or atomic(new, schema):
        # A leaf, or a value that has changed its type: what was below it is gone.
        changes.modified.add(path)
        return
    if isinstance(new, dict):
        for name, value in new.items():
            here = (*path, f"f:{name}")
            below = child(schema, name)
            if name in old:
                _compare(old[name], value, below, here, changes)
            else:
                _everything(value, below, here, changes.added)
        for name in old.keys() - new.keys():
            _everything(old[name], child(schema, name), (*path, f"f:{name}"), changes.removed)
        return
    before, after, below = index(old, schema), index(new, schema), items(schema)
    for element, values in after.items():
        _compare_items(before.get(element, []), values, below, (*path, element), changes)
    for element in before.keys() - after.keys():
        _compare_items(before[element], [], below, (*path, element), changes)


def _compare_items(old: list[Any], new: list[Any], schema: Schema, path: Path, changes: Changes) -> None:
    """Compare the items under one key; several of them count as one field."""
    if len(old) == 1 and len(new) == 1:
        _compare(old[0], new[0], schema, path, changes)
    elif len(old) > 1 and len(new) > 1:
        if old != new:
            changes.modified.add(path)
    else:
        for values, target in ((old, changes.removed), (new, changes.added)):
            if len(values) == 1:
                _everything(values[0], schema, path, target)
            elif values:
                target.add(path)


def _everything(value: Any, schema: Schema, path: Path, target: set[Path]) -> None:
    """A value that comes or goes as a whole: itself and all below it."""
    target.add(path)
    if not isinstance(value, dict | list) or atomic(value, schema):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            _everything(each, child(schema, name), (*path, f"f:{name}"), target)
        return
    for element, values in index(value, schema).items():
        if len(values) == 1:
            _everything(values[0], items(schema), (*path, element), target)
        else:
            target.add((*path, element))


def fields_of(value: Any, schema: Schema) -> Paths:
    """The fields that an applied configuration speaks of: its leaves, its list items and its map keys.

    Raises:
        ApiError: 400 when an item of an associative list has no key, or two have the same.
    """
    field_paths: set[Path] = set()
    _fields(value, schema, (), field_paths)
    return frozenset(field_paths)


def _fields(value: Any, schema: Schema, path: Path, found: set[Path]) -> None:
    if not isinstance(value, dict | list) or atomic(value, schema):
        found.add(path)
    elif isinstance(value, dict):
        for name, each in value.items():
            here = (*path, f"f:{name}")
            _fields(each, child(schema, name), here, found)
            if each == {} or not declared(schema, name):
                found.add(here)
    else:
        for element, values in index(value, schema).items():
            here = (*path, element)
            if len(values) > 1:
                key = text((element,)).strip("[]")
                raise bad_request(f"{text(path)}: duplicate entries for key [{key}]")
            _fields(values[0], items(schema), here, found)
            found.add(here)


def with_parents(members: Paths, schema: Schema) -> Paths:
    """``members`` and the struct fields that hold them, so that a struct counts as owned while a part of it is."""
    extended: set[Path] = set(members)
    for path in members:
        node, parents = schema, []
        for depth, element in enumerate(path[:-1]):
            if element[:2] != "f:":
                node = items(node)
                continue
            name = element[2:]
            if declared(node, name):
                parents.append(path[: depth + 1])
            node = child(node, name)
        extended.update(parents)
    return frozenset(extended)


def all_fields(value: Any, schema: Schema) -> Paths:
    """Every field of a value, with all structs, maps and lists above them."""
    target: set[Path] = set()
    _everything(value, schema, (), target)
    return frozenset(target)
