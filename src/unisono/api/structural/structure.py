"""Whether a schema is structural: every field has one type, told outside of anyOf, allOf, oneOf and not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from unisono.api.field_error import FieldError, forbidden, invalid, required
from unisono.api.patterns import PatternError, compile_pattern

Schema = dict[str, Any]
Level = Literal["root", "item", "field"]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_NO_TYPE: dict[Level, str] = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_JUNCTORS = ("anyOf", "allOf", "oneOf")
# What may stand in the structural part only, and what is said when it stands elsewhere.
_NESTED: dict[str, str] = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def check_structure(schema: Schema, path: str) -> list[FieldError]:
    """Everything that keeps a schema (as ``dialect.read_schema`` leaves it) from being structural, sorted."""
    errors = [*_structural(schema, "root", path), *_complete_value(schema, schema, path, path)]
    return sorted(errors, key=FieldError.message)


def _structural(schema: Schema, level: Level, path: str) -> Iterator[FieldError]:
    kind, properties = schema.get("type", ""), schema.get("properties", {})
    items, additional = schema.get("items"), schema.get("additionalProperties")
    embedded = schema.get("x-kubernetes-embedded-resource", False)
    if kind == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, dict):
        yield from _structural(items, "item", f"{path}.items")
    for name, each in properties.items():
        yield from _structural(each, "field", f"{path}.properties[{name}]")
    if additional is not None:
        if level == "root":
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if embedded:
            why = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", why)
        if isinstance(additional, dict):
            yield from _structural(additional, "field", f"{path}.additionalProperties")
    yield from _extensions(schema, path)
    yield from _values(
        schema, path, any_of=_is_int_or_string(schema.get("anyOf")), all_of=_starts_int_or_string(schema)
    )
    yield from _type(schema, kind, level, path)
    yield from _meta(properties, level, path, checked=level == "root" or embedded)
    if embedded and not schema.get("x-kubernetes-preserve-unknown-fields") and not properties:
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(f"{path}.properties", why)


def _type(schema: Schema, kind: str, level: Level, path: str) -> Iterator[FieldError]:
    at = f"{path}.type"
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        why = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(at, kind, why) if kind else required(at, why)
    elif not kind and not free:
        yield required(at, _NO_TYPE[level])
    if level == "root" and kind and kind != "object":
        yield invalid(at, kind, "must be object at the root")


def _extensions(schema: Schema, path: str) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for other in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(other):
                yield invalid(f"{path}.{other}", True, "must be false if x-kubernetes-int-or-string is true")


def _meta(properties: Schema, level: Level, path: str, *, checked: bool) -> Iterator[FieldError]:
    if checked:
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                at = f"{path}.properties[{name}].type"
                yield invalid(at, properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    at = f"{path}.properties[metadata]"
    if checked and metadata.get("type") != "object":
        yield invalid(f"{at}.type", metadata.get("type", ""), "must be object")
    if level == "root":
        rest = {key: value for key, value in metadata.items() if key not in ("type", "default", "description")}
        if set(rest.get("properties", {})) <= {"name", "generateName"}:
            rest.pop("properties", None)
        if rest:
            why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(at, why)


def _is_int_or_string(any_of: Any) -> bool:
    return bool(any_of == _INT_OR_STRING)


def _starts_int_or_string(schema: Schema) -> bool:
    first: Schema = next(iter(schema.get("allOf", ())), {})
    return _is_int_or_string(first.get("anyOf"))


def _values(schema: Schema, path: str, *, any_of: bool = False, all_of: bool = False) -> Iterator[FieldError]:
    """Rules of values; the two flags say that an int-or-string pattern stands in anyOf or in the first of allOf."""
    for junctor in _JUNCTORS:
        if junctor == "anyOf" and any_of:
            continue
        for index, each in enumerate(schema.get(junctor, ())):
            first = junctor == "allOf" and all_of and index == 0
            yield from _nested(each, f"{path}.{junctor}[{index}]", any_of=first)
    if "not" in schema:
        yield from _nested(schema["not"], f"{path}.not")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", pattern, why)


def _nested(schema: Schema, path: str, *, any_of: bool = False) -> Iterator[FieldError]:
    yield from _values(schema, path, any_of=any_of)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    for name, each in schema.get("properties", {}).items():
        yield from _nested(each, f"{path}.properties[{name}]")
    for word, why in _NESTED.items():
        if schema.get(word) not in (None, "", False, []) or (word == "additionalProperties" and word in schema):
            yield forbidden(f"{path}.{word}", why)
    if "metadata" in schema.get("properties", {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _complete_value(value: Schema, schema: Schema | None, at: str, path: str) -> Iterator[FieldError]:
    """Whatever a junctor speaks about must be there outside of junctors too; ``at`` is the place where it must be."""
    if "not" in value:
        yield from _complete(value["not"], schema, at, f"{path}.not")
    for junctor in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(value.get(junctor, ())):
            yield from _complete(each, schema, at, f"{path}.{junctor}[{index}]")


def _complete(value: Schema, schema: Schema | None, at: str, path: str) -> Iterator[FieldError]:
    if schema is None:
        yield required(at, f"because it is defined in {path}")
        return
    yield from _complete_value(value, schema, at, path)
    if isinstance(value.get("items"), dict):
        items = schema.get("items")
        yield from _complete(value["items"], items if isinstance(items, dict) else None, f"{at}.items", f"{path}.items")
    known = schema.get("properties", {})
    for name, each in value.get("properties", {}).items():
        yield from _complete(each, known.get(name), f"{at}.properties[{name}]", f"{path}.properties[{name}]")
