"""Reads ``arguments`` maps of a configuration file, strictly.

Volcano ignores an argument of the wrong type and keeps the default; here it is an error, because a quoted ``"5"`` that
silently means 1 costs hours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from unisono.engine.config.arguments import Argument, Shape, matches_kind
from unisono.engine.config_file.problems import Problems
from unisono.engine.config_file.yaml_positions import Value, suggestion

_WORDS = {
    "bool": "true or false",
    "int": "a whole number without quotes",
    "float": "a number without quotes",
    "text": "a text",
    "duration": "a duration such as 1m30s",
    "list": "a list",
    "map": "a map",
    "quantity": "a quantity such as 250m or 200Mi",
}


def read_arguments(
    value: Value,
    known: Iterable[Argument] | None,
    owner: str,
    problems: Problems,
    others: Mapping[str, Iterable[Argument]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The entries of an ``arguments`` map as plain Python values; what is wrong with one goes to ``problems``.

    Args:
        value: the map.
        known: what ``owner`` takes; None for anything.
        owner: the plug-in or action, as errors name it.
        problems: collects the errors of single arguments.
        others: what other plug-ins and actions take, by what errors call them.

    Raises:
        ConfigError: the value is no map.

    """
    if known is None:
        return {key: entry.plain() for key, _, entry in value.items()}
    specs = tuple(known)
    read: dict[str, Any] = {}
    for key, at, entry in value.items():
        with problems.kept():
            spec = next((spec for spec in specs if spec.accepts(key)), None)
            if spec is None:
                at.fail(f"unknown argument {key} of {owner}{_elsewhere(key, specs, owner, others)}")
            if entry.is_null:
                continue
            plain = entry.plain()
            if not matches_kind(spec.kind, plain):
                entry.fail(f"argument {key} of {owner} must be {_WORDS[spec.kind]}, not {plain!r}")
            if spec.choices and plain not in spec.choices:
                entry.fail(f"argument {key} of {owner} must be {' or '.join(spec.choices)}, not {plain!r}")
            if spec.shape is not None:
                check_shape(entry, spec.shape, f"{key} of {owner}", problems)
            read[key] = plain
    return read


def check_shape(value: Value, shape: Shape, what: str, problems: Problems) -> None:
    """Look into a value; each part that is wrong is an error of its own.

    Args:
        value: where it stands.
        shape: what it must be.
        what: its name in messages.
        problems: collects the errors.

    Raises:
        ConfigError: the value as a whole is wrong.

    """
    plain = value.plain()
    form = shape.form or _WORDS.get(shape.kind, "")
    if not matches_kind(shape.kind, plain):
        value.fail(f"{what} must be {form}, not {plain!r}")
    if shape.choices and plain not in shape.choices:
        value.fail(f"{what} must be {' or '.join(map(str, shape.choices))}, not {plain!r}")
    if (shape.least is not None and plain < shape.least) or (shape.most is not None and plain > shape.most):
        bounds = f"at least {shape.least:g}" if shape.most is None else f"{shape.least or 0:g} to {shape.most:g}"
        value.fail(f"{what} must be {form if shape.form else f'{form}, {bounds}'}, not {plain!r}")
    if shape.right is not None and not shape.right(plain):
        value.fail(f"{what} must be {form}, not {plain!r}")
    if isinstance(plain, dict):
        _check_map(value, shape, what, problems)
    elif isinstance(plain, list) and shape.each is not None:
        for element in value.elements():
            with problems.kept():
                check_shape(element, shape.each, f"an element of {what}", problems)


def _check_map(value: Value, shape: Shape, what: str, problems: Problems) -> None:
    entries = value.items()
    for key, at, entry in entries:
        with problems.kept():
            inner = shape.each if shape.fields is None else shape.fields.get(key)
            if inner is None and shape.fields is not None:
                has = f"; it has {', '.join(sorted(shape.fields))}"
                at.fail(f"unknown key {key} in {what}{suggestion(key, shape.fields) or has}")
            if inner is not None:
                check_shape(entry, inner, f"{key} in {what}", problems)
    for key in shape.required:
        with problems.kept():
            if not any(name == key for name, _, _ in entries):
                value.fail(f"{what} has no {key}")


def _elsewhere(key: str, specs: tuple[Argument, ...], owner: str, others: Mapping[str, Iterable[Argument]]) -> str:
    """What was meant: an argument of another owner of exactly this name, or the nearest of this one."""
    for name, known in others.items():
        if name != owner and any(spec.accepts(key) for spec in known):
            return f"; it is one of {name}"
    near = suggestion(key, (spec.key for spec in specs))
    return near or ("" if specs else f"; {owner} has no arguments")
