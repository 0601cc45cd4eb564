"""Checks a value against a schema; the texts are those of a Kubernetes API server.

On an update, a part of the object that is as it was is not checked again, so that a stricter schema does not lock
users out of objects that they cannot repair at once (Kubernetes calls this ratcheting).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from unisono.api.field_error import FieldError, invalid, json_type, not_supported, required
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.structural.formats import find_check
from unisono.api.structural.lists import identity, map_key
from unisono.api.structural.node import ABSENT, Node

# The path of errors that Kubernetes tells without one.
NOWHERE = "<nil>"
_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)


def check_value(node: Node, value: Any, old: Any = ABSENT, path: str = "") -> list[FieldError]:
    """Everything in ``value`` that the schema does not allow.

    Args:
        node: the schema.
        value: decoded JSON, pruned and defaulted.
        old: the value before an update.
        path: of the value, for the errors.

    """
    walk = _Walk()
    walk.node(node, value, old, path)
    return walk.errors


class _Walk:
    """Collects errors; ``matches`` counts what was right, to tell the nearest alternative of anyOf and oneOf."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.matches = 0

    def node(self, node: Node, value: Any, old: Any, path: str) -> None:
        if old is not ABSENT and value is not None and identity(old) == identity(value):
            self.matches += 1
            return
        self._type(node, value, path)
        if value is not None:
            self._logic(node, value, old, path)
            match value:
                case bool():
                    pass
                case str():
                    self._check(_text(node, value, path))
                case int() | float():
                    self._check(check_number(node, value, path))
                case list():
                    self._list(node, value, old, path)
                case dict():
                    self._object(node, value, old, path)
        allowed = node.bounds.get("enum")
        if allowed and not any(same_number(each, value) for each in allowed):
            shown = [each if isinstance(each, str) else identity(each).decode() for each in allowed]
            self.errors.append(not_supported(path, value, shown))
        self.matches += 1

    def _check(self, errors: Iterator[FieldError]) -> None:
        before = len(self.errors)
        self.errors.extend(errors)
        self.matches += len(self.errors) == before

    def _type(self, node: Node, value: Any, path: str) -> None:
        wrong = _wrong_type(node, value)
        if wrong is None:
            self.matches += 1
            return
        expected, actual = wrong
        text = f'{path} in body must be of type {expected}: "{actual}"'
        self.errors.append(FieldError(path or NOWHERE, "FieldValueTypeInvalid", actual, text))

    def _list(self, node: Node, value: list[Any], old: Any, path: str) -> None:
        if node.items is not None:
            before = _items_before(node, old)
            for index, each in enumerate(value):
                self.node(node.items, each, before(each), f"{path}[{index}]")
        self._check(_size(node, len(value), "Items", "items", path))

    def _object(self, node: Node, value: dict[str, Any], old: Any, path: str) -> None:
        self._check(_size(node, len(value), "Properties", "properties", path))
        before = old if isinstance(old, dict) else {}
        for name, each in value.items():
            at = f"{path}.{name}" if path else name
            below = node.child(name)
            if below is not None:
                self.node(below, each, before.get(name, ABSENT), at)
            elif node.open is False:
                self.errors.append(invalid(path or NOWHERE, name, f"{path}.{name} in body is a forbidden property"))
        for name in node.required:
            if name not in value:
                self.errors.append(required(f"{path}.{name}" if path else name))

    def _logic(self, node: Node, value: Any, old: Any, path: str) -> None:
        if node.any_of:
            self._any_of(node.any_of, value, old, path)
        if node.one_of:
            self._one_of(node.one_of, value, old, path)
        if node.all_of:
            self._all_of(node.all_of, value, old, path)
        if node.negated is not None and not _tried(node.negated, value, old, path).errors:
            self._composite(f'"{path}" must not validate the schema (not)')

    def _composite(self, text: str) -> None:
        self.errors.append(invalid(NOWHERE, "", text))

    def _any_of(self, nodes: tuple[Node, ...], value: Any, old: Any, path: str) -> None:
        tried = [_tried(each, value, old, path) for each in nodes]
        if all(each.errors for each in tried):
            self._composite(f'"{path}" must validate at least one schema (anyOf)')
            self.errors += max(tried, key=lambda each: each.matches).errors

    def _one_of(self, nodes: tuple[Node, ...], value: Any, old: Any, path: str) -> None:
        tried = [_tried(each, value, old, path) for each in nodes]
        valid = sum(1 for each in tried if not each.errors)
        if valid == 1:
            return
        found = f"Found {valid} valid alternatives" if valid else "Found none valid"
        self._composite(f'"{path}" must validate one and only one schema (oneOf). {found}')
        if not valid:
            self.errors += max(tried, key=lambda each: each.matches).errors

    def _all_of(self, nodes: tuple[Node, ...], value: Any, old: Any, path: str) -> None:
        tried = [_tried(each, value, old, path) for each in nodes]
        for each in tried:
            self.errors += each.errors
        valid = sum(1 for each in tried if not each.errors)
        if valid < len(nodes):
            none = "" if valid else ". None validated"
            self._composite(f'"{path}" must validate all the schemas (allOf){none}')


def _tried(node: Node, value: Any, old: Any, path: str) -> _Walk:
    walk = _Walk()
    walk.node(node, value, old, path)
    return walk


def _items_before(node: Node, old: Any) -> Callable[[Any], Any]:
    """Which item of the old list an item continues: only lists with keys tell."""
    if node.list_type != "map" or not isinstance(old, list):
        return lambda item: ABSENT
    known = {identity(map_key(node, each)): each for each in old}
    return lambda item: known.get(identity(map_key(node, item)), ABSENT)


def _wrong_type(node: Node, value: Any) -> tuple[str, str] | None:
    """Expected and actual type when they differ."""
    types = node.types
    wanted = _known_format(node)
    if not types and not wanted:
        return None
    actual = json_type(value)
    listed = ",".join(types)
    if value is None:
        return None if node.nullable or not types else (listed, actual)
    fits = actual in types or (actual == "integer" and "number" in types)
    fits = fits or (isinstance(value, float) and value.is_integer() and "integer" in types)
    if isinstance(value, str | list):
        numeric = "number" in types or "integer" in types
        if wanted and not numeric:
            return None
    elif wanted and not fits:
        return wanted, {"integer": "int64", "number": "float64"}.get(actual, "")
    return None if fits else (listed, actual)


def _known_format(node: Node) -> str:
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(node.type)
    if known is not None:
        return node.format if node.format in known else ""
    if node.type not in ("", "string") or find_check(node.format) is None:
        return ""
    return node.format


def _text(node: Node, value: str, path: str) -> Iterator[FieldError]:
    bounds = node.bounds
    longest, shortest, pattern = bounds.get("maxLength"), bounds.get("minLength"), bounds.get("pattern")
    if longest is not None and len(value) > longest:
        unit = "byte" if longest == 1 else "bytes"
        yield FieldError(path, "FieldValueTooLong", "", f"may not be more than {longest} {unit}")
    elif shortest is not None and len(value) < shortest:
        yield invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    elif pattern and not _fits(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    check = find_check(node.format) if _known_format(node) else None
    if check is not None and not check(value):
        text = f'{path} in body must be of type {node.format}: "{value}"'
        yield FieldError(path, "FieldValueTypeInvalid", value, text)


def _fits(pattern: str, value: str) -> bool:
    try:
        return compile_pattern(pattern).found_in(value)
    except PatternError:
        return False


def _size(node: Node, size: int, what: str, word: str, path: str) -> Iterator[FieldError]:
    most, least = node.bounds.get(f"max{what}"), node.bounds.get(f"min{what}")
    if least is not None and size < least:
        yield invalid(path or NOWHERE, size, f"{path} in body should have at least {show_number(least)} {word}")
    if most is not None and size > most:
        unit = "item" if most == 1 else "items"
        yield FieldError(path or NOWHERE, "FieldValueTooMany", size, f"must have at most {show_number(most)} {unit}")


def show_number(value: float) -> str:
    """A number as Go prints it: whole numbers without a fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def same_number(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; 1 and 1.0 are, 1 and true are not."""
    return bool(_plain(left) == _plain(right))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return identity(value)


def check_number(node: Node, value: float, path: str) -> Iterator[FieldError]:
    """Format, multipleOf, maximum and minimum."""
    if node.type == "integer" and len(node.types) == 1:
        first, last = _RANGES.get(node.format, _INT64)
        if not first <= value <= last or (isinstance(value, float) and not value.is_integer()):
            form = f"with format {node.format}" if node.format in ("int32", "int64") else "(default format)"
            yield invalid("<nil>", "", f"Checked value must be of type integer {form} in {path}")
    bounds = node.bounds
    step = bounds.get("multipleOf")
    if step and not _divides(step, value):
        yield invalid(path, value, f"{path} in body should be a multiple of {show_number(step)}")
    highest, lowest = bounds.get("maximum"), bounds.get("minimum")
    if highest is not None:
        strict = bounds.get("exclusiveMaximum") is True
        if value > highest or (strict and value == highest):
            word = "less than" if strict else "less than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {show_number(highest)}")
    if lowest is not None:
        strict = bounds.get("exclusiveMinimum") is True
        if value < lowest or (strict and value == lowest):
            word = "greater than" if strict else "greater than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {show_number(lowest)}")


def _divides(step: float, value: float) -> bool:
    if isinstance(step, int) and isinstance(value, int):
        return value % step == 0
    if not (math.isfinite(step) and math.isfinite(value)):
        return False
    # In decimal, as people read them: 0.3 is a multiple of 0.1.
    return Fraction(repr(value)) % Fraction(repr(step)) == 0
