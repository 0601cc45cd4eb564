"""The shape of a struct on the wire, read once from its type annotations.

Schemas are rendered from shapes, incoming objects are walked along them, and the schema's constraints are checked with
them, so the three cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import cleandoc
from typing import Any, Literal

import msgspec
from msgspec import inspect

ShapeType = Literal["object", "map", "array", "string", "integer", "boolean", "quantity", "int-or-string", "any"]


@dataclass(slots=True)
class Shape:
    """One value on the wire.

    Attributes:
        kind: what the value is; ``any`` is preserved as it comes.
        struct: the struct of an ``object``.
        fields: wire name to field, of an ``object``.
        item: shape of the items of an ``array`` or of the values of a ``map``.
        rules: schema keywords such as minimum, pattern, enum, maxLength, format, default.
        constrained: does this shape, or one below it, have rules that a value can break.

    """

    kind: ShapeType
    struct: type[msgspec.Struct] | None = None
    fields: dict[str, FieldShape] = field(default_factory=dict)
    item: Shape | None = None
    rules: dict[str, Any] = field(default_factory=dict)
    constrained: bool = False


@dataclass(slots=True)
class FieldShape:
    """A field of an object: its wire name, its attribute, its shape, and what a reader should know."""

    name: str
    attribute: str
    shape: Shape
    required: bool
    description: str


# Rules that a value can break; the other keywords only inform.
_CHECKED = frozenset(("minimum", "maximum", "pattern", "enum", "minLength", "maxLength", "minItems"))


_SHAPES: dict[type[msgspec.Struct], Shape] = {}


def shape_of(struct: type[msgspec.Struct]) -> Shape:
    """The shape of a struct, with everything below it."""
    known = _SHAPES.get(struct)
    if known is None:
        info = inspect.type_info(struct)
        assert isinstance(info, inspect.StructType)
        known = _object(info)
    return known


def prepare(structs: Iterable[type[msgspec.Struct]]) -> None:
    """Find the shapes of many structs at once: what several of them hold is inspected once, not for each of them."""
    unknown = [struct for struct in structs if struct not in _SHAPES]
    for info in inspect.multi_type_info(unknown):
        assert isinstance(info, inspect.StructType)
        _object(info)


def _object(info: inspect.StructType) -> Shape:
    # Inspecting a struct inspects everything below it, so what is below is not inspected again.
    struct = info.cls
    if struct in _SHAPES:
        return _SHAPES[struct]
    described = descriptions(struct)
    fields: dict[str, FieldShape] = {}
    for entry in info.fields:
        shape, required = _field(entry.type)
        fields[entry.encode_name] = FieldShape(
            entry.encode_name, entry.name, shape, required, described.get(entry.name, "")
        )
    # Core structs have their own validation, which says more than a schema could.
    own = not struct.__module__.startswith("unisono.api.core") and struct.__module__ != "unisono.api.base"
    constrained = own and any(each.required or each.shape.constrained for each in fields.values())
    _SHAPES[struct] = Shape("object", struct=struct, fields=fields, constrained=constrained)
    return _SHAPES[struct]


def _field(info: inspect.Type) -> tuple[Shape, bool]:
    """The shape of a field's type without its ``None``, and whether the field must be there."""
    rules: dict[str, Any] = {}
    required = False
    if isinstance(info, inspect.Metadata):
        rules, required = dict(info.extra_json_schema or {}), bool((info.extra or {}).get("required"))
        info = info.type
    shape = _shape(info)
    if rules:
        shape = replace(shape, rules=shape.rules | rules)
    shape.constrained = shape.constrained or not _CHECKED.isdisjoint(shape.rules)
    return shape, required


def _shape(info: inspect.Type) -> Shape:
    match info:
        case inspect.UnionType(types=types):
            return _union([each for each in types if not isinstance(each, inspect.NoneType)])
        case inspect.StructType():
            return _object(info)
        case inspect.ListType(item_type=item):
            below = _field(item)[0]
            return Shape("array", item=below, constrained=below.constrained)
        case inspect.DictType(value_type=value):
            below = _field(value)[0]
            if below.kind == "any":
                return Shape("any", rules={"type": "object"})
            return Shape("map", item=below, constrained=below.constrained)
        case inspect.StrType():
            return Shape("string")
        case inspect.IntType():
            return Shape("integer")
        case inspect.BoolType():
            return Shape("boolean")
        case inspect.AnyType():
            return Shape("any")
        case _:
            raise TypeError(f"no wire shape for {info!r}: use str, int, bool, list, dict[str, ...] or a struct")


def _union(types: list[inspect.Type]) -> Shape:
    if len(types) == 1:
        return _field(types[0])[0]
    names = {type(each) for each in types}
    if names == {inspect.StrType, inspect.IntType, inspect.FloatType}:
        return Shape("quantity")
    if names == {inspect.StrType, inspect.IntType}:
        return Shape("int-or-string")
    raise TypeError(f"no wire shape for a union of {types!r}")


_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n        .*)*)", re.MULTILINE)


def summary(struct: type[msgspec.Struct]) -> str:
    """First paragraph of a struct's docstring on one line."""
    return " ".join(cleandoc(struct.__doc__ or "").split("\n\n")[0].split())


@cache
def descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Attribute name to its text in the docstring's ``Attributes:`` section."""
    _, found, section = cleandoc(struct.__doc__ or "").partition("Attributes:\n")
    if not found:
        return {}
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(section)}
