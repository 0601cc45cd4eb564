"""From JSON values to structs and back.

``decode`` never raises: what is wrong comes back as a value, and the struct holds everything that was right.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from inspect import cleandoc
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import inspect

from unisono.api.base import Object
from unisono.api.field_error import FieldError, invalid, type_invalid
from unisono.api.groups.batch import DependsOn
from unisono.api.groups.scheduling import Guarantee, QueueSpec
from unisono.api.kind import Kind
from unisono.api.names import nearest
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.times import is_time

# The shape of a struct on the wire, read once from its type annotations.
#
# Schemas are rendered from shapes, incoming objects are walked along them, and the schema's constraints are checked
# with them, so the three cannot differ.

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
    shape = _SHAPES.get(struct)
    if shape is None:
        info = inspect.type_info(struct)
        assert isinstance(info, inspect.StructType)
        shape = _object(info)
    return shape


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
    _, heading, section = cleandoc(struct.__doc__ or "").partition("Attributes:\n")
    if not heading:
        return {}
    return {name: " ".join(text.split()) for name, text in _ATTRIBUTE.findall(section)}


# Spellings that users write and that mean a field of another form.


def _queue_spec(value: Any) -> Any:
    """``guaranteed: {cpu: 20}`` means ``guarantee: {resource: {cpu: 20}}``; the official spelling wins."""
    if not isinstance(value, dict) or "guaranteed" not in value:
        return value
    rest = {key: each for key, each in value.items() if key != "guaranteed"}
    if rest.get("guarantee") is None and value["guaranteed"] is not None:
        rest["guarantee"] = {"resource": value["guaranteed"]}
    return rest


def _depends_on(value: Any) -> Any:
    """``dependsOn: task-a``, ``dependsOn: [task-a]`` and ``dependsOn: {name: task-a}`` mean a list of names."""
    if isinstance(value, str):
        return {"name": [value]}
    if isinstance(value, list):
        return {"name": value}
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        return {**value, "name": [value["name"]]}
    return value


_NORMALISERS: dict[type[msgspec.Struct], Callable[[Any], Any]] = {QueueSpec: _queue_spec, DependsOn: _depends_on}


def normalise(struct: type[msgspec.Struct], value: Any) -> Any:
    """``value`` in the official spelling of ``struct``; the input is not changed."""
    normaliser = _NORMALISERS.get(struct)
    return value if normaliser is None else normaliser(value)


@cache
def alias_fields(struct: type[msgspec.Struct]) -> Mapping[str, FieldShape]:
    """Fields that only other spellings have, by wire name.

    A definition names them, since an API server refuses or drops what its schema does not have. A spelling that gives a
    known field another type has no place in a schema; the mutating webhook rewrites it.
    """
    if struct is not QueueSpec:
        return {}
    description = "the same as guarantee.resource, for manifests that spell it so; guarantee wins."
    return {
        "guaranteed": FieldShape("guaranteed", "", shape_of(Guarantee).fields["resource"].shape, False, description)
    }


# What has been found right before: equal parts of objects, such as the specs of a gang's pods, are looked at once.

_MARK_BYTES = 16


class Known:
    """Remembers which values were right, by a digest of their bytes.

    Args:
        most: how many are remembered; the one that was met longest ago goes first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._marks: OrderedDict[tuple[type, bytes], None] = OrderedDict()

    def met(self, owner: type, encoded: bytes) -> bool:
        """Whether this value was right as a part of an ``owner``."""
        mark = _mark(owner, encoded)
        if mark not in self._marks:
            return False
        self._marks.move_to_end(mark)
        return True

    def add(self, owner: type, encoded: bytes) -> None:
        """Remember that this value is right."""
        self._marks[_mark(owner, encoded)] = None
        if len(self._marks) > self._most:
            self._marks.popitem(last=False)


def _mark(owner: type, encoded: bytes) -> tuple[type, bytes]:
    return owner, blake2b(encoded, digest_size=_MARK_BYTES).digest()


T = TypeVar("T", bound=Object)

_ENCODER = msgspec.json.Encoder()
_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_DEEPEST = 200
_SHOWN = 64
# Specs of which nothing had to be changed.
_clean = Known(4096)
QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]+)*$'"


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T]):
    """An object and what was wrong with the JSON it came from.

    Attributes:
        obj: the struct; fields of a wrong type are absent.
        unknown_fields: paths of fields that the kind does not have, such as ``spec.tasks[0].bogus``; they are pruned.
        type_errors: values of a wrong JSON type, numbers out of range, and texts that are not quantities or times.
        clean: the JSON that the struct was made from: only what was given, known and right.
        meant: of unknown fields, by path, what the writer probably means, such as ``minMember`` or ``metadata.labels``.
    """

    obj: T
    unknown_fields: list[str]
    type_errors: list[FieldError]
    clean: dict[str, Any] = field(default_factory=dict)
    meant: dict[str, str] = field(default_factory=dict)

    def unknown_texts(self) -> list[str]:
        """A sentence for each unknown field, as Kubernetes says it, with what is probably meant."""
        texts = []
        for path in self.unknown_fields:
            meant = f" (did you mean {self.meant[path]}?)" if path in self.meant else ""
            texts.append(f'unknown field "{path}"{meant}')
        return texts


def decode(kind: Kind[T], value: Any) -> Decoded[T]:
    """Decode a JSON value as ``kind``: aliases normalised, nulls dropped, unknown fields pruned.

    ``apiVersion`` and ``kind`` of the result are those of ``kind``, whatever alias version came in.
    """
    walk = _DecodingWalk()
    encoded = _encoded_spec(value)
    if encoded is not None and _clean.met(kind.struct, encoded):
        # Nothing in it would be pruned, converted or complained of.
        decoded = walk.value(
            shape_of(kind.struct), {name: each for name, each in value.items() if name != "spec"}, None
        )
        clean = {**decoded, "spec": value["spec"]}
    else:
        decoded = walk.value(shape_of(kind.struct), value, None)
        clean = decoded if isinstance(decoded, dict) else {}
        if encoded is not None and not walk.unknown and not walk.errors and encoded == _encoded_spec(clean):
            _clean.add(kind.struct, encoded)
    obj = msgspec.convert(clean, kind.struct)
    obj.api_version, obj.kind = kind.api_version, kind.kind
    return Decoded(obj, walk.unknown, walk.errors, clean, walk.meant)


def _encoded_spec(value: Any) -> bytes | None:
    """The bytes of an object's spec, for comparison; None where it has none that is worth it."""
    spec = value.get("spec") if isinstance(value, dict) else None
    if not isinstance(spec, dict) or not spec:
        return None
    try:
        return _ENCODER.encode(spec)
    except (TypeError, ValueError, RecursionError):  # what JSON cannot say; the walk finds it
        return None


def encode(obj: Object) -> bytes:
    """The object as JSON; absent fields are left out."""
    return _ENCODER.encode(obj)


# A path is a chain (parent, key), rendered only when it is needed.
# A key is a field name, a list index, or a one-tuple with a map's key.
_Path = tuple[Any, str | int | tuple[str]] | None
_DROP = object()
_HOLDERS = ("metadata", "spec", "template")
"""Fields beside which people write what belongs into them."""
_MOST_MEANT = 64
"""Unknown fields of one object for which it is worked out what is probably meant, which takes longest of all."""
_LEAST = 6
"""Shortest field that counts as the beginning of another."""


def render_path(path: _Path) -> str:
    """``spec.tasks[0].name`` of a chain."""
    parts: list[str] = []
    while path is not None:
        path, key = path
        match key:
            case str():
                parts.append(f".{key}")
            case (name,):
                parts.append(f"[{name}]")
            case _:
                parts.append(f"[{key}]")
    return "".join(reversed(parts)).removeprefix(".")


def _meant(name: str, fields: Mapping[str, FieldShape]) -> str:
    """The field of an object that a name which it does not have is a near miss of; empty where none is.

    ``labels`` beside ``metadata`` is within it, and ``priorityClass`` is the only field that begins so.
    """
    within = [each for each, known in fields.items() if each in _HOLDERS and name in known.shape.fields]
    if len(within) == 1:
        return f"{within[0]}.{name}"
    lower = name.lower()
    longer = [each for each in fields if min(len(each), len(name)) >= _LEAST and each.lower().startswith(lower)]
    shorter = [each for each in fields if min(len(each), len(name)) >= _LEAST and lower.startswith(each.lower())]
    alike = longer or shorter
    return alike[0] if len(alike) == 1 else nearest(name, fields)


class _DecodingWalk:
    """One walk along a shape; collects what is wrong and answers the clean value, or ``_DROP``."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.meant: dict[str, str] = {}
        self.errors: list[FieldError] = []

    def value(self, shape: Shape, value: Any, path: _Path) -> Any:
        match shape.kind:
            case "object":
                return self._object(shape, value, path)
            case "map":
                return self._map(shape, value, path)
            case "array":
                return self._array(shape, value, path)
            case "string":
                return self._string(shape, value, path)
            case "boolean":
                return value if isinstance(value, bool) else self._wrong(value, path, "boolean")
            case "integer":
                return self._integer(shape, value, path)
            case "quantity":
                return self._quantity(value, path)
            case "int-or-string":
                if isinstance(value, str):
                    return utf8(value)
                return self._integer(shape, value, path, "integer or string")
            case _:
                return self._any(shape, value, path)

    def _wrong(self, value: Any, path: _Path, expected: str) -> Any:
        self.errors.append(type_invalid(render_path(path), value, expected))
        return _DROP

    def _object(self, shape: Shape, value: Any, path: _Path) -> Any:
        if shape.struct is not None:
            value = normalise(shape.struct, value)
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        clean: dict[str, Any] = {}
        fields = shape.fields
        for name, each in value.items():
            declared = fields.get(name)
            if declared is None:
                unknown = render_path((path, utf8(str(name))))
                self.unknown.append(unknown)
                if len(self.unknown) <= _MOST_MEANT and (near := _meant(str(name), fields)):
                    self.meant[unknown] = near
            elif each is not None:
                result = self.value(declared.shape, each, (path, name))
                if result is not _DROP:
                    clean[name] = result
        return clean

    def _map(self, shape: Shape, value: Any, path: _Path) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, path, "object")
        item = shape.item
        assert item is not None
        clean: dict[str, Any] = {}
        for key, each in value.items():
            name = utf8(str(key))
            if each is None:
                # Go decodes a null map value to the zero value of its type, which is null again for a time.
                if item.kind in ("string", "array") and not _is_time(item):
                    clean[name] = "" if item.kind == "string" else []
                continue
            result = self.value(item, each, (path, (name,)))
            if result is not _DROP:
                clean[name] = result
        return clean

    def _array(self, shape: Shape, value: Any, path: _Path) -> Any:
        if not isinstance(value, list):
            return self._wrong(value, path, "array")
        item = shape.item
        assert item is not None
        results = [self.value(item, each, (path, index)) for index, each in enumerate(value)]
        return [result for result in results if result is not _DROP]

    def _string(self, shape: Shape, value: Any, path: _Path) -> Any:
        if not isinstance(value, str):
            return self._wrong(value, path, "string")
        # Each reader of a time parses it, so what is not a time must not be stored.
        if _is_time(shape) and not is_time(value):
            where, shown = render_path(path), utf8(value[:_SHOWN])
            rule = f"{where} in body must be of type date-time, such as 2026-11-20T16:33:50Z"
            self.errors.append(invalid(where, shown, rule))
            return _DROP
        return utf8(value)

    def _integer(self, shape: Shape, value: Any, path: _Path, expected: str = "integer") -> Any:
        # JSON has one number type: 3.0 and 1e3 are integers.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return self._wrong(value, path, expected)
        narrow = shape.rules.get("format") == "int32" or shape.kind == "int-or-string"
        lowest, highest = _INT32 if narrow else _INT64
        if lowest <= value <= highest:
            return value
        where = render_path(path)
        bound = f"less than or equal to {highest}" if value > highest else f"greater than or equal to {lowest}"
        shown = value if _INT64[0] <= value <= _INT64[1] else _clip(value)
        self.errors.append(invalid(where, shown, f"{where} in body should be {bound}"))
        return _DROP

    def _quantity(self, value: Any, path: _Path) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return self._wrong(value, path, "integer or string")
        if isinstance(value, str):
            value = utf8(value).strip()
        elif isinstance(value, int) and not _INT64[0] <= value <= _INT64[1]:
            value = str(max(_INT64[0], min(_INT64[1], value)))
        try:
            parse_quantity(value)
        except QuantityError:
            self.errors.append(invalid(render_path(path), str(value), QUANTITY_RULE))
            return _DROP
        return value

    def _any(self, shape: Shape, value: Any, path: _Path) -> Any:
        if shape.rules.get("type") == "object" and not isinstance(value, dict):
            return self._wrong(value, path, "object")
        return _plain(value, _DEEPEST)


def _clip(value: int) -> float:
    """A number of any size as one that can be shown."""
    return float(max(-(10**300), min(10**300, value)))


def utf8(value: str) -> str:
    """Text that UTF-8 can hold: lone surrogates become U+FFFD, as in Go."""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _plain(value: Any, depth: int) -> Any:
    """Free JSON that can be encoded again: no lone surrogates, no integers beyond 64 bits, no bottomless nesting."""
    match value:
        case dict():
            return {utf8(str(key)): _plain(each, depth - 1) for key, each in value.items()} if depth else {}
        case list():
            return [_plain(each, depth - 1) for each in value] if depth else []
        case str():
            return utf8(value)
        case int() if not isinstance(value, bool) and not _INT64[0] <= value <= _INT64[1]:
            return max(_INT64[0], min(_INT64[1], value))
        case _:
            return value


def _is_time(shape: Shape) -> bool:
    return bool(shape.rules) and shape.rules.get("format") == "date-time"
