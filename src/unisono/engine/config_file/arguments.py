"""Reads ``arguments`` maps of a configuration file, strictly.

Volcano ignores an argument of the wrong type and keeps the default; here it is an error, because a quoted ``"5"`` that
silently means 1 costs hours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unisono.engine.config.arguments import Argument, matches_kind
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


def read_arguments(value: Value, known: Iterable[Argument] | None, owner: str, problems: Problems) -> dict[str, Any]:
    """The entries of an ``arguments`` map as plain Python values; what is wrong with one goes to ``problems``.

    Args:
        value: the map.
        known: what ``owner`` takes; None for anything.
        owner: the plug-in or action, as errors name it.
        problems: collects the errors of single arguments.

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
                has = "" if specs else f"; {owner} has no arguments"
                at.fail(f"unknown argument {key} of {owner}{has or suggestion(key, (spec.key for spec in specs))}")
            if entry.is_null:
                continue
            plain = entry.plain()
            if not matches_kind(spec.kind, plain):
                entry.fail(f"argument {key} of {owner} must be {_WORDS[spec.kind]}, not {plain!r}")
            if spec.choices and plain not in spec.choices:
                entry.fail(f"argument {key} of {owner} must be {' or '.join(spec.choices)}, not {plain!r}")
            read[key] = plain
    return read
