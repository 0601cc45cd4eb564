"""A schema as a tree of nodes: read once from JSON, walked for every object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of ``x-kubernetes-validations``.

    Attributes:
        rule: CEL expression over ``self`` and, for transitions, ``oldSelf``.
        message: what to tell; empty: the rule itself.
        message_expression: CEL expression that makes the message.
        reason: ``reason`` of the Status cause.
        field_path: field below the schema's that is to blame, such as ``.spec.size``.
        optional_old_self: the rule runs without an old value too, and ``oldSelf`` is an optional.
    """

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = "FieldValueInvalid"
    field_path: str = ""
    optional_old_self: bool = False


@dataclass(slots=True)
class Node:
    """One schema.

    Attributes:
        type: JSON type, or empty.
        types: what a value's type must be one of; two for int-or-string.
        default: value of an absent field, or ``ABSENT``.
        additional: schema of fields that ``properties`` does not name.
        open: ``additionalProperties`` is ``true`` (any value) or ``false`` (none); None when it says neither.
        has_rules: a CEL rule stands here or in a structural schema below.
        bounds: value rules by their names in JSON schema (minimum, pattern, maxItems, enum, ...).
    """

    type: str = ""
    types: tuple[str, ...] = ()
    format: str = ""
    nullable: bool = False
    int_or_string: bool = False
    preserve: bool = False
    embedded: bool = False
    default: Any = ABSENT
    properties: dict[str, Node] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: Node | None = None
    open: bool | None = None
    items: Node | None = None
    bounds: dict[str, Any] = field(default_factory=dict)
    all_of: tuple[Node, ...] = ()
    any_of: tuple[Node, ...] = ()
    one_of: tuple[Node, ...] = ()
    negated: Node | None = None
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: tuple[Rule, ...] = ()
    has_rules: bool = False

    def child(self, name: str) -> Node | None:
        """The schema of a field of an object."""
        named = self.properties.get(name)
        return self.additional if named is None else named

    def walk(self) -> Iterator[Node]:
        """The node and the structural ones below it (not those of anyOf and its like)."""
        yield self
        for below in (*self.properties.values(), self.additional, self.items):
            if below is not None:
                yield from below.walk()


_BOUNDS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "enum",
)


def compile_schema(schema: Any) -> Node:
    """The node of a JSON schema; parts of a wrong JSON type count as absent (``rules`` reports them)."""
    raw = _object(schema)
    additional = raw.get("additionalProperties")
    int_or_string = raw.get("x-kubernetes-int-or-string") is True
    kind = _string(raw.get("type"))
    node = Node(
        type=kind,
        types=("integer", "string") if int_or_string else ((kind,) if kind else ()),
        format=_string(raw.get("format")),
        nullable=raw.get("nullable") is True,
        int_or_string=int_or_string,
        preserve=raw.get("x-kubernetes-preserve-unknown-fields") is True,
        embedded=raw.get("x-kubernetes-embedded-resource") is True,
        # A default of null is none.
        default=ABSENT if raw.get("default") is None else raw["default"],
        properties={str(name): compile_schema(each) for name, each in _object(raw.get("properties")).items()},
        required=tuple(str(each) for each in _list(raw.get("required"))),
        additional=compile_schema(additional) if isinstance(additional, dict) else None,
        open=additional if isinstance(additional, bool) else None,
        items=compile_schema(raw["items"]) if isinstance(raw.get("items"), dict) else None,
        bounds={name: raw[name] for name in _BOUNDS if raw.get(name) is not None},
        all_of=tuple(compile_schema(each) for each in _list(raw.get("allOf"))),
        any_of=tuple(compile_schema(each) for each in _list(raw.get("anyOf"))),
        one_of=tuple(compile_schema(each) for each in _list(raw.get("oneOf"))),
        negated=compile_schema(raw["not"]) if isinstance(raw.get("not"), dict) else None,
        list_type=_string(raw.get("x-kubernetes-list-type")),
        list_map_keys=tuple(str(each) for each in _list(raw.get("x-kubernetes-list-map-keys"))),
        map_type=_string(raw.get("x-kubernetes-map-type")),
        rules=tuple(_rule(each) for each in _list(raw.get("x-kubernetes-validations")) if isinstance(each, dict)),
    )
    below = (*node.properties.values(), node.additional, node.items)
    node.has_rules = bool(node.rules) or any(each.has_rules for each in below if each is not None)
    return node


def _rule(raw: dict[str, Any]) -> Rule:
    return Rule(
        rule=_string(raw.get("rule")),
        message=_string(raw.get("message")),
        message_expression=_string(raw.get("messageExpression")),
        reason=_string(raw.get("reason")) or "FieldValueInvalid",
        field_path=_string(raw.get("fieldPath")),
        optional_old_self=raw.get("optionalOldSelf") is True,
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Simple JSON paths that name a field of a schema: ``.spec.size``, ``.metadata.labels['a.b']``.

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
        token = _TOKEN.match(path, position)
        if token is None:
            raise PathError(f"expected [ or . but got: {path[position:]}")
        if token[2] is not None and not brackets:
            raise PathError("array notation is not allowed")
        name = token[1] if token[1] is not None else re.sub(r"\\(.)", r"\1", token[2])
        named = bool(node.properties)
        below = node.properties.get(name) if named else node.additional
        if below is None:
            raise PathError("does not refer to a valid field")
        node, position = below, token.end()
        shown += (f".{name}" if shown else name) if named else f"[{name}]"
        names.append(name)
    return names, shown, node
