"""The fields that a value has, and the fields in which two values differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from unisono.apiserver.failures import bad_request
from unisono.apiserver.managed_fields import paths, schemas
from unisono.apiserver.managed_fields.paths import Path, Paths
from unisono.apiserver.managed_fields.schemas import Schema


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
    if type(old) is not type(new) or schemas.atomic(new, schema):
        # A leaf, or a value that has changed its type: what was below it is gone.
        changes.modified.add(path)
        return
    if isinstance(new, dict):
        for name, value in new.items():
            here = (*path, f"f:{name}")
            below = schemas.child(schema, name)
            if name in old:
                _compare(old[name], value, below, here, changes)
            else:
                _everything(value, below, here, changes.added)
        for name in old.keys() - new.keys():
            _everything(old[name], schemas.child(schema, name), (*path, f"f:{name}"), changes.removed)
        return
    before, after, below = schemas.index(old, schema), schemas.index(new, schema), schemas.items(schema)
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
    if not isinstance(value, dict | list) or schemas.atomic(value, schema):
        return
    if isinstance(value, dict):
        for name, each in value.items():
            _everything(each, schemas.child(schema, name), (*path, f"f:{name}"), target)
        return
    for element, values in schemas.index(value, schema).items():
        if len(values) == 1:
            _everything(values[0], schemas.items(schema), (*path, element), target)
        else:
            target.add((*path, element))


def fields_of(value: Any, schema: Schema) -> Paths:
    """The fields that an applied configuration speaks of: its leaves, its list items and its map keys.

    Raises:
        ApiError: 400 when an item of an associative list has no key, or two have the same.

    """
    found: set[Path] = set()
    _fields(value, schema, (), found)
    return frozenset(found)


def _fields(value: Any, schema: Schema, path: Path, found: set[Path]) -> None:
    if not isinstance(value, dict | list) or schemas.atomic(value, schema):
        found.add(path)
    elif isinstance(value, dict):
        for name, each in value.items():
            here = (*path, f"f:{name}")
            _fields(each, schemas.child(schema, name), here, found)
            if each == {} or not schemas.declared(schema, name):
                found.add(here)
    else:
        for element, values in schemas.index(value, schema).items():
            here = (*path, element)
            if len(values) > 1:
                key = paths.text((element,)).strip("[]")
                raise bad_request(f"{paths.text(path)}: duplicate entries for key [{key}]")
            _fields(values[0], schemas.items(schema), here, found)
            found.add(here)


def with_parents(members: Paths, schema: Schema) -> Paths:
    """``members`` and the struct fields that hold them, so that a struct counts as owned while a part of it is."""
    found: set[Path] = set(members)
    for path in members:
        node, parents = schema, []
        for depth, element in enumerate(path[:-1]):
            if element[:2] != "f:":
                node = schemas.items(node)
                continue
            name = element[2:]
            if schemas.declared(node, name):
                parents.append(path[: depth + 1])
            node = schemas.child(node, name)
        found.update(parents)
    return frozenset(found)


def all_fields(value: Any, schema: Schema) -> Paths:
    """Every field of a value, with all structs, maps and lists above them."""
    target: set[Path] = set()
    _everything(value, schema, (), target)
    return frozenset(target)
