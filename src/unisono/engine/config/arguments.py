"""Arguments of plug-ins and actions: what they are called, what they may hold, and which value holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_GO_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))*|[-+]?0")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value inside a map, a list or a text must be.

    Attributes:
        kind: as of an `Argument`, or ``any``.
        fields: what a map may hold, by key; None: any keys.
        each: every value of a map without ``fields``, or every element of a list.
        required: keys that a map must have.
        choices: the only values that are right; none: all are.
        least, most: bounds of a number.
        right: whether the value is right beyond that.
        form: the right form in words, for errors.

    """

    kind: str = "any"
    fields: Mapping[str, Shape] | None = None
    each: Shape | None = None
    required: tuple[str, ...] = ()
    choices: tuple[Any, ...] = ()
    least: float | None = None
    most: float | None = None
    right: Callable[[Any], bool] | None = None
    form: str = ""


def one_of(*choices: str) -> Shape:
    """One of these texts."""
    return Shape("text", choices=choices)


PERCENT = Shape("int", least=0, most=100, form="a whole number of percent, 0 to 100")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument.

    Attributes:
        key: its key; a trailing ``*`` stands for any further text (``binpack.resources.*``).
        kind: ``bool``, ``int``, ``float``, ``text``, ``duration``, ``list``, ``map`` or ``quantity``.
        default: what holds when the key is absent.
        meaning: one line for the documentation.
        choices: the only texts that are right; none: all are.
        effective: False for keys that are accepted because Volcano has them, and that change nothing here.
        shape: what must hold inside the value, where ``kind`` does not say all.

    """

    key: str
    kind: str
    default: Any
    meaning: str
    effective: bool = True
    choices: tuple[str, ...] = ()
    shape: Shape | None = None

    def accepts(self, key: str) -> bool:
        """Whether ``key`` is this argument."""
        if self.key.endswith("*"):
            return key.startswith(self.key[:-1]) and len(key) >= len(self.key)
        return key == self.key


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types) and not isinstance(value, bool)


_MATCHES: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "bool": lambda value: isinstance(value, bool) or (isinstance(value, str) and value in _GO_BOOLS),
    "int": _is(int),
    "float": _is(int, float),
    "text": _is(str),
    "duration": lambda value: isinstance(value, str) and _DURATION.fullmatch(value) is not None,
    "list": _is(list),
    "map": _is(dict),
    "quantity": _is(str, int),
}


def matches_kind(kind: str, value: Any) -> bool:
    """Whether a YAML value can be read as ``kind`` (Volcano's readers: bools also as Go's bool texts)."""
    return _MATCHES[kind](value)


def read_bool(value: Any) -> bool:
    """A bool as Volcano's readers accept it."""
    return _GO_BOOLS[value] if isinstance(value, str) else bool(value)


def argument_value(spec: Argument, given: Mapping[str, Any]) -> Any:
    """The value that holds for ``spec``: what is given where its type is right, else the default."""
    value = given.get(spec.key)
    if value is None or not matches_kind(spec.kind, value):
        return spec.default
    if spec.kind == "bool":
        return read_bool(value)
    return float(value) if spec.kind == "float" else value
