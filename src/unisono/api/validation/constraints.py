"""Constraints of the generated schema (minimum, pattern, enum, lengths, required), as an API server checks a CRD's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from unisono.api.field_error import FieldError, invalid, not_supported, required, too_long
from unisono.api.shape import Shape


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text.replace("$", r"\Z"), re.ASCII)


def validate_shape(shape: Shape, value: Any, path: str = "") -> Iterator[FieldError]:
    """Walk a struct (or a list, map or scalar in it) along its shape."""
    match shape.kind:
        case "object":
            yield from _object(shape, value, path)
        case "array":
            if shape.item is not None and shape.item.constrained:
                for index, each in enumerate(value):
                    yield from validate_shape(shape.item, each, f"{path}[{index}]")
        case "map":
            if shape.item is not None and shape.item.constrained:
                for key, each in value.items():
                    yield from validate_shape(shape.item, each, f"{path}[{key}]")
        case "string":
            yield from _text(shape.rules, value, path)
        case "integer":
            yield from _integer(shape.rules, value, path)
        case _:
            return


def _object(shape: Shape, value: Any, path: str) -> Iterator[FieldError]:
    for name, entry in shape.fields.items():
        below = getattr(value, entry.attribute)
        at = f"{path}.{name}" if path else name
        if entry.required and not below:
            yield required(at)
        elif below is not None and entry.shape.constrained:
            # The empty string is how a struct says that a plain str field is absent.
            if below == "" and not entry.required:
                continue
            yield from validate_shape(entry.shape, below, at)


def _text(rules: Mapping[str, Any], value: str, path: str) -> Iterator[FieldError]:
    if "enum" in rules and value not in rules["enum"]:
        yield not_supported(path, value, rules["enum"])
    if "maxLength" in rules and len(value) > rules["maxLength"]:
        yield too_long(path, value, rules["maxLength"])
    if "minLength" in rules and len(value) < rules["minLength"]:
        yield invalid(path, value, f"{path} in body should be at least {rules['minLength']} chars long")
    if "pattern" in rules and not _pattern(rules["pattern"]).search(value):
        yield invalid(path, value, f"{path} in body should match '{rules['pattern']}'")


def _integer(rules: Mapping[str, Any], value: int, path: str) -> Iterator[FieldError]:
    if "minimum" in rules and value < rules["minimum"]:
        yield invalid(path, value, f"{path} in body should be greater than or equal to {rules['minimum']}")
    if "maximum" in rules and value > rules["maximum"]:
        yield invalid(path, value, f"{path} in body should be less than or equal to {rules['maximum']}")
