"""Whole objects inside of objects (``x-kubernetes-embedded-resource``): their apiVersion, kind and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from unisono.api import names
from unisono.api.base import Object
from unisono.api.decode import decode
from unisono.api.field_error import FieldError, invalid, required
from unisono.api.kind import Kind
from unisono.api.structural.node import Node

_META: Kind[Object] = Kind("meta.k8s.io", "v1", "Object", "objects", Object)


def read_embedded(node: Node | None, value: Any, path: str = "") -> list[str]:
    """Drop, in place, fields that metadata of embedded objects does not have; answers their paths."""
    dropped: list[str] = []
    for at, found in _embedded(node, value, path):
        metadata = found.get("metadata")
        if isinstance(metadata, dict):
            read = decode(_META, {"metadata": metadata})
            if not read.type_errors:
                dropped += [f"{at}.{each}" for each in read.unknown_fields]
                found["metadata"] = read.clean["metadata"]
    return dropped


def check_embedded(node: Node | None, value: Any, path: str = "") -> Iterator[FieldError]:
    """What is wrong with apiVersion, kind and metadata of embedded objects."""
    for at, found in _embedded(node, value, path):
        for word in ("apiVersion", "kind"):
            yield from _type(word, found, f"{at}.{word}")
        if "metadata" in found:
            for error in decode(_META, {"metadata": found["metadata"]}).type_errors:
                yield replace(error, path=f"{at}.{error.path}")


def _type(word: str, value: dict[str, Any], path: str) -> Iterator[FieldError]:
    if word not in value:
        yield required(path)
        return
    found = value[word]
    if not isinstance(found, str):
        yield invalid(path, found, "must be a string")
    elif not found:
        yield invalid(path, found, "must not be empty")
    elif word == "apiVersion" and found.count("/") > 1:
        yield invalid(path, found, f"unexpected GroupVersion string: {found}")
    elif word == "kind" and (problems := names.dns_1035_label(found.lower())):
        yield invalid(path, found, f"may have mixed case, but should otherwise match: {','.join(problems)}")


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
