"""Arguments of plug-ins and actions: what they are called, what they may hold, and how a value is read.

Volcano ignores an argument of the wrong type and keeps the default; here it is an error, because a quoted ``"5"`` that
silently means 1 costs hours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.engine.config_yaml import Value, suggestion

_GO_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|[-+]?0")
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


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        key: its key; a trailing ``*`` stands for any further text (``binpack.resources.*``).
        kind: ``bool``, ``int``, ``float``, ``text``, ``duration``, ``list``, ``map`` or ``quantity``.
        default: what holds when the key is absent.
        meaning: one line for the documentation.
        effective: False for keys that are accepted because Volcano has them, and that change nothing here.

    """

    key: str
    kind: str
    default: Any
    meaning: str
    effective: bool = True

    def accepts(self, key: str) -> bool:
        """Whether ``key`` is this argument."""
        if self.key.endswith("*"):
            return key.startswith(self.key[:-1]) and len(key) >= len(self.key)
        return key == self.key


def matches_kind(kind: str, value: Any) -> bool:
    """Whether a YAML value can be read as ``kind`` (Volcano's readers: bools also as Go's bool texts)."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {
        "bool": isinstance(value, bool) or (isinstance(value, str) and value in _GO_BOOLS),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": is_number,
        "text": isinstance(value, str),
        "duration": isinstance(value, str) and _DURATION.fullmatch(value) is not None,
        "list": isinstance(value, list),
        "map": isinstance(value, dict),
        "quantity": isinstance(value, (str, int)) and not isinstance(value, bool),
    }[kind]


def read_bool(value: Any) -> bool:
    """A bool as Volcano's readers accept it."""
    return _GO_BOOLS[value] if isinstance(value, str) else bool(value)


def read_arguments(value: Value, known: Iterable[Argument] | None, owner: str) -> dict[str, Any]:
    """Check an ``arguments`` map against what ``owner`` knows (None: anything); returns plain Python values."""
    if known is None:
        return {key: entry.plain() for key, _, entry in value.items()}
    specs = tuple(known)
    read: dict[str, Any] = {}
    for key, at, entry in value.items():
        spec = next((spec for spec in specs if spec.accepts(key)), None)
        if spec is None:
            has = "" if specs else f"; {owner} has no arguments"
            at.fail(f"unknown argument {key} of {owner}{has or suggestion(key, (spec.key for spec in specs))}")
        if entry.is_null:
            continue
        plain = entry.plain()
        if not matches_kind(spec.kind, plain):
            entry.fail(f"argument {key} of {owner} must be {_WORDS[spec.kind]}, not {plain!r}")
        read[key] = plain
    return read


def argument_value(spec: Argument, given: Mapping[str, Any]) -> Any:
    """The value that holds for ``spec``: what is given where its type is right, else the default."""
    value = given.get(spec.key)
    if value is None or not matches_kind(spec.kind, value):
        return spec.default
    if spec.kind == "bool":
        return read_bool(value)
    return float(value) if spec.kind == "float" else value
