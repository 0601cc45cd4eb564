"""What a schema makes of a value: fields that it does not know are dropped, and absent ones get their defaults."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from unisono.api import names
from unisono.api.base import Object
from unisono.api.decode import decode
from unisono.api.field_error import FieldError, invalid, required, type_invalid
from unisono.api.kind import Kind
from unisono.api.structural.node import ABSENT, Node

# Which words a schema may use and of what JSON type their values are; unknown words are dropped.

_KINDS: dict[str, str] = {
    **dict.fromkeys(
        (
            "id",
            "$schema",
            "$ref",
            "description",
            "type",
            "format",
            "title",
            "pattern",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
        ),
        "string",
    ),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), "number"),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), "integer"),
    **dict.fromkeys(
        (
            "exclusiveMaximum",
            "exclusiveMinimum",
            "uniqueItems",
            "nullable",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ),
        "boolean",
    ),
    **dict.fromkeys(("enum",), "array"),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), "strings"),
    **dict.fromkeys(("allOf", "oneOf", "anyOf"), "schemas"),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), "schema map"),
    **dict.fromkeys(("not",), "schema"),
    **dict.fromkeys(("additionalProperties", "additionalItems"), "schema or boolean"),
    "items": "schema or list",
    "dependencies": "object",
    "externalDocs": "object",
    "default": "any",
    "example": "any",
    "x-kubernetes-validations": "rules",
}
_RULE: dict[str, str] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), "string"),
    "optionalOldSelf": "boolean",
}


def read_schema(schema: Any, path: str) -> tuple[Any, list[str], list[FieldError]]:
    """The schema without unknown words and values of a wrong type.

    Returns:
        The clean schema, the paths of unknown words, and the wrong types.
    """
    reader = _Reader()
    return reader.schema(schema, path), reader.unknown, reader.errors


class _Reader:
    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.errors: list[FieldError] = []

    def schema(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        clean: dict[str, Any] = {}
        for word, each in value.items():
            kind, at = _KINDS.get(word), f"{path}.{word}"
            if kind is None:
                self.unknown.append(at)
            elif each is not None:
                read = self._value(kind, each, at)
                if read is not None:
                    clean[word] = read
        return clean

    def _value(self, kind: str, value: Any, path: str) -> Any:
        match kind:
            case "any":
                return value
            case "schema":
                return self.schema(value, path)
            case "schema or boolean":
                return value if isinstance(value, bool) else self.schema(value, path)
            case "schema or list":
                return value if isinstance(value, list) else self.schema(value, path)
            case "schema map":
                return self._map(value, path)
            case "schemas":
                return self._list(value, path, self.schema)
            case "strings":
                return self._list(value, path, lambda each, at: self._scalar("string", each, at))
            case "rules":
                return self._list(value, path, self._rule)
            case _:
                return self._scalar(kind, value, path)

    def _map(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        return {name: self.schema(each, f"{path}.{name}") or {} for name, each in value.items()}

    def _list(self, value: Any, path: str, read: Any) -> Any:
        if not isinstance(value, list):
            return self._wrong(value, path, "array")
        items = [read(each, f"{path}[{index}]") for index, each in enumerate(value)]
        return [each for each in items if each is not None]

    def _rule(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        self.unknown += [f"{path}.{name}" for name in value if name not in _RULE]
        read = {
            name: self._scalar(_RULE[name], each, f"{path}.{name}")
            for name, each in value.items()
            if name in _RULE and each is not None
        }
        return {name: each for name, each in read.items() if each is not None}

    def _scalar(self, kind: str, value: Any, path: str) -> Any:
        fits = {
            "string": isinstance(value, str),
            "boolean": isinstance(value, bool),
            "array": isinstance(value, list),
            "object": isinstance(value, dict),
            "number": isinstance(value, int | float) and not isinstance(value, bool),
            "integer": isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer(),
        }[kind]
        if not fits:
            return self._wrong(value, path, kind)
        return int(value) if kind == "integer" else value

    def _wrong(self, value: Any, path: str, expected: str) -> None:
        self.errors.append(type_invalid(path, value, expected))


# Whole objects inside of objects (``x-kubernetes-embedded-resource``): their apiVersion, kind and metadata.

_META: Kind[Object] = Kind("meta.k8s.io", "v1", "Object", "objects", Object)


def read_embedded(node: Node | None, value: Any) -> list[str]:
    """Drop, in place, fields that metadata of embedded objects does not have; answers their paths."""
    dropped: list[str] = []
    for at, embedded in _embedded(node, value, ""):
        metadata = embedded.get("metadata")
        if isinstance(metadata, dict):
            read = decode(_META, {"metadata": metadata})
            if not read.type_errors:
                dropped += [f"{at}.{each}" for each in read.unknown_fields]
                embedded["metadata"] = read.clean["metadata"]
    return dropped


def check_embedded(node: Node | None, value: Any) -> Iterator[FieldError]:
    """What is wrong with apiVersion, kind and metadata of embedded objects."""
    for at, embedded in _embedded(node, value, ""):
        for word in ("apiVersion", "kind"):
            yield from _type(word, embedded, f"{at}.{word}")
        if "metadata" in embedded:
            for error in decode(_META, {"metadata": embedded["metadata"]}).type_errors:
                yield replace(error, path=f"{at}.{error.path}")


def _type(word: str, value: dict[str, Any], path: str) -> Iterator[FieldError]:
    if word not in value:
        yield required(path)
        return
    text = value[word]
    if not isinstance(text, str):
        yield invalid(path, text, "must be a string")
    elif not text:
        yield invalid(path, text, "must not be empty")
    elif word == "apiVersion" and text.count("/") > 1:
        yield invalid(path, text, f"unexpected GroupVersion string: {text}")
    elif word == "kind" and (problems := names.dns_1035_label(text.lower())):
        yield invalid(path, text, f"may have mixed case, but should otherwise match: {','.join(problems)}")


def _embedded(node: Node | None, value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if node is None:
        return
    if isinstance(value, dict):
        if node.embedded:
            yield path, value
        for name, each in value.items():
            below = node.properties.get(name)
            if below is not None:
                yield from _embedded(below, each, f"{path}.{name}" if path else name)
            elif node.additional is not None:
                yield from _embedded(node.additional, each, f"{path}[{name}]")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _embedded(node.items, each, f"{path}[{index}]")


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
        kept_names = META_FIELDS if node is not None and (node.embedded or whole) else frozenset()
        for name in list(value):
            if name in kept_names:
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
