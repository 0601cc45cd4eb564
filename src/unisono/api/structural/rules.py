"""What a schema in a CustomResourceDefinition may say: words, types, list keys, defaults, CEL rules."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.structural.node import Node, PathError, compile_schema, field_path
from unisono.api.structural.pruning import META_FIELDS, prune
from unisono.api.structural.values import NOWHERE, check_value

# Whether a schema is structural: every field has one type, told outside of anyOf, allOf, oneOf and not.

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
    properties = schema.get("properties", {})
    for name, each in value.get("properties", {}).items():
        yield from _complete(each, properties.get(name), f"{at}.properties[{name}]", f"{path}.properties[{name}]")


_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_AT_ROOT_WITH_STATUS = (
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
)
_WORDS_AT_ROOT = frozenset(name[0].lower() + name[1:] for name in _AT_ROOT_WITH_STATUS) | {
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}
_REFUSED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")


def check_schema(schema: Schema, path: str, *, status: bool = False) -> list[FieldError]:
    """Everything that is wrong with a schema that ``dialect.read_schema`` has read.

    Args:
        schema: the schema of a version.
        path: of the schema, for the errors.
        status: the version has the status subresource.
    """
    errors = [*_root(schema, path, status=status)]
    structural = check_structure(schema, path)
    errors += structural
    if not structural:
        errors += _defaults(schema, path, in_meta=False)
    errors += _check(schema, path, _Place())
    return list({error.message(): error for error in errors}.values())


def _root(schema: Schema, path: str, *, status: bool) -> Iterator[FieldError]:
    if status:
        if schema.get("type", "object") != "object":
            why = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            yield invalid(f"{path}.type", schema["type"], why)
        elif not set(schema) <= _WORDS_AT_ROOT | {"nullable"}:
            why = (
                f"only [{' '.join(_AT_ROOT_WITH_STATUS)}] fields are allowed at the root of the schema if the status "
                "subresource is enabled"
            )
            yield invalid(path, sorted(set(schema) - _WORDS_AT_ROOT), why)
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the schema we are.

    Attributes:
        no_defaults: why defaults are refused; empty when they are not.
        in_meta: below apiVersion, kind or metadata of an object.
    """

    root: bool = True
    no_defaults: str = ""
    in_meta: bool = False


def _check(schema: Schema, path: str, place: _Place) -> Iterator[FieldError]:
    yield from _words(schema, path, place)
    yield from _lists(schema, path)
    yield from _rules(schema, path)
    below = replace(place, root=False)
    additional, properties = schema.get("additionalProperties"), schema.get("properties", {})
    if properties and (additional is False or isinstance(additional, dict)):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if isinstance(additional, dict):
        inside = "inside additionalProperties applying to object metadata" if place.in_meta else place.no_defaults
        yield from _check(additional, f"{path}.additionalProperties", replace(below, no_defaults=inside))
    for name, each in properties.items():
        here = below
        if name in META_FIELDS and (place.root or schema.get("x-kubernetes-embedded-resource")):
            reason = f"in top-level {name}" if place.root else below.no_defaults
            here = replace(below, in_meta=True, no_defaults=reason)
        yield from _check(each, f"{path}.properties[{name}]", here)
    for junctor in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(schema.get(junctor, ())):
            yield from _check(each, f"{path}.{junctor}[{index}]", below)
    if "not" in schema:
        yield from _check(schema["not"], f"{path}.not", below)
    if isinstance(schema.get("items"), dict):
        yield from _check(schema["items"], f"{path}.items", below)


def _words(schema: Schema, path: str, place: _Place) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if schema.get("default") is not None and place.no_defaults:
        yield forbidden(f"{path}.default", f"must not be set {place.no_defaults}")
    for word in _REFUSED:
        if schema.get(word) not in (None, "", {}):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    for extension, required_type, allowed in (
        ("x-kubernetes-map-type", "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ):
        value = schema.get(extension)
        if value is None:
            continue
        if kind != required_type:
            why = f"must be {required_type} if {extension} is specified"
            yield invalid(f"{path}.type", kind, why) if kind else required(f"{path}.type", why)
        if value not in allowed:
            yield not_supported(f"{path}.{extension}", value, allowed)


def _lists(schema: Schema, path: str) -> Iterator[FieldError]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys", [])
    items = schema.get("items")
    item: Schema = items if isinstance(items, dict) else {}
    if keys and list_type != "map":
        at, why = f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty"
        yield required(at, why) if list_type is None else invalid(at, list_type, why)
    if list_type == "set" and schema.get("type") == "array":
        yield from _set_items(item, path)
    if list_type in ("set", "map") and item.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type != "map":
        return
    if not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", why)
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    elif item.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", item.get("type", ""), why)
    else:
        yield from _map_keys(item, keys, path)


def _set_items(item: Schema, path: str) -> Iterator[FieldError]:
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if item.get("type") == "array" and item.get("x-kubernetes-list-type", "atomic") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-list-type", item["x-kubernetes-list-type"], why)
    if item.get("type") == "object" and item.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-map-type", item.get("x-kubernetes-map-type"), why)


def _map_keys(item: Schema, keys: list[str], path: str) -> Iterator[FieldError]:
    properties = item.get("properties", {})
    for key in dict.fromkeys(keys):
        at = f"{path}.items.properties[{key}]"
        each = properties.get(key)
        if each is None:
            yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
            continue
        if each.get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{at}.type", each["type"], why)
        if key not in item.get("required", ()) and each.get("default") is None:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{at}.default", why)
        if each.get("nullable"):
            why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{at}.nullable", why)
    if len(set(keys)) != len(keys):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")


def _rules(schema: Schema, path: str) -> Iterator[FieldError]:
    for index, each in enumerate(schema.get("x-kubernetes-validations", ())):
        at = f"{path}.x-kubernetes-validations[{index}]"
        rule, message, target = each.get("rule", ""), each.get("message", ""), each.get("fieldPath", "")
        if not rule.strip():
            yield required(f"{at}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{at}.message", message, "must be non-empty if specified")
        elif _breaks(message.strip()):
            yield invalid(f"{at}.message", message, "must not contain line breaks")
        elif _breaks(rule.strip()) and not message.strip():
            yield required(f"{at}.message", "message must be specified if rule contains line breaks")
        expression = each.get("messageExpression", "")
        if expression and not expression.strip():
            yield required(f"{at}.messageExpression", "messageExpression must be non-empty if specified")
        reason = each.get("reason")
        if reason is not None and reason not in _REASONS:
            yield not_supported(f"{at}.reason", reason, _REASONS)
        if target and not target.strip():
            yield invalid(f"{at}.fieldPath", target, "must be non-empty if specified")
        if _breaks(target):
            yield invalid(f"{at}.fieldPath", target, "must not contain line breaks")
        if target:
            try:
                field_path(target, compile_schema(schema))
            except PathError:
                yield invalid(f"{at}.fieldPath", target, "must be a valid path")


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _defaults(schema: Schema, path: str, *, in_meta: bool) -> Iterator[FieldError]:
    """Defaults must be values that the schema allows and keeps."""
    embedded = schema.get("x-kubernetes-embedded-resource", False)
    if schema.get("default") is not None and not in_meta:
        yield from _default(compile_schema(schema), schema["default"], f"{path}.default")
    if isinstance(schema.get("items"), dict):
        yield from _defaults(schema["items"], f"{path}.items", in_meta=in_meta)
    for name, each in schema.get("properties", {}).items():
        inside = in_meta or (embedded and name in META_FIELDS)
        yield from _defaults(each, f"{path}.properties[{name}]", in_meta=inside)


def _default(node: Node, value: Any, path: str) -> Iterator[FieldError]:
    pruned = copy.deepcopy(value)
    if prune(node, pruned, root=node.embedded):
        yield invalid(path, value, "must not have unknown fields")
    for error in check_value(node, value):
        yield replace(error, path=path if error.path in ("", NOWHERE) else f"{path}.{error.path}")
