"""The part of CEL that device selectors commonly use.

Supported: ``device.driver``, ``device.attributes["domain"].name``, ``device.capacity["domain"].name``, strings,
numbers, booleans, lists, ``quantity("1Gi")``, ``! && || == != < <= > >= in + -``, parentheses, ``has(...)``, methods
``compareTo``, ``isGreaterThan``, ``isLessThan``, ``startsWith``, ``endsWith``, ``contains``, ``lowerAscii``. Everything
else is refused when the selector is read, with a sentence that names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from unisono.api.quantity import QuantityError, parse_quantity

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<symbol>&&|\|\||==|!=|<=|>=|[-+!<>()\[\],.]))"""
)
_METHODS = ("compareTo", "isGreaterThan", "isLessThan", "startsWith", "endsWith", "contains", "lowerAscii")


class UnsupportedSelectorError(ValueError):
    """A selector that this version cannot evaluate; the text says which part."""


class _Missing(Exception):
    """An attribute that the device does not have."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What selectors see of a device; attributes and capacity by domain and name."""

    driver: str
    attributes: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Fraction]]


Evaluator = Callable[[DeviceFacts], Any]


def compile_selector(text: str) -> Callable[[DeviceFacts], bool]:
    """A predicate over devices; a device that lacks what the selector looks at is not selected.

    Raises:
        UnsupportedSelectorError: the selector uses what is not supported.

    """
    parser = _Parser(_tokens(text))
    evaluate = parser.whole()

    def selected(device: DeviceFacts) -> bool:
        try:
            return evaluate(device) is True
        except (_Missing, TypeError):
            return False

    return selected


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise UnsupportedSelectorError(f"{text[at:].strip()[:20]!r} is not supported in a device selector")
        kind = match.lastgroup or ""
        found.append((kind, match.group(kind)))
        at = match.end()
    return found


class _Parser:
    """Recursive descent; each method answers an evaluator."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def whole(self) -> Evaluator:
        evaluate = self._or()
        if self._at < len(self._tokens):
            raise self._unsupported()
        return evaluate

    def _unsupported(self) -> UnsupportedSelectorError:
        rest = self._tokens[self._at][1] if self._at < len(self._tokens) else "its end"
        return UnsupportedSelectorError(f"{rest!r} is not supported at this place of a device selector")

    def _peek(self, *symbols: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at] in [("symbol", symbol) for symbol in symbols]

    def _take(self, symbol: str) -> bool:
        if self._peek(symbol):
            self._at += 1
            return True
        return False

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._unsupported()

    def _next(self, kind: str) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != kind:
            raise self._unsupported()
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _or(self) -> Evaluator:
        return self._chain("||", self._and, absorbing=True)

    def _and(self) -> Evaluator:
        return self._chain("&&", self._comparison, absorbing=False)

    def _chain(self, symbol: str, part: Callable[[], Evaluator], *, absorbing: bool) -> Evaluator:
        """``||`` and ``&&``: an operand that decides alone decides even where another one fails, as in CEL."""
        parts = [part()]
        while self._take(symbol):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]

        def evaluate(device: DeviceFacts) -> bool:
            failure: Exception | None = None
            for one in parts:
                try:
                    value: bool = one(device)
                    if value is absorbing:
                        return absorbing
                except (_Missing, TypeError) as error:
                    failure = error
            if failure is not None:
                raise failure
            return not absorbing

        return evaluate

    def _comparison(self) -> Evaluator:
        left = self._sum()
        if self._at < len(self._tokens) and self._tokens[self._at] == ("name", "in"):
            self._at += 1
            right = self._sum()
            return lambda device: left(device) in right(device)
        for symbol, compare in _COMPARISONS.items():
            if self._take(symbol):
                right = self._sum()
                return lambda device: compare(left(device), right(device))
        return left

    def _sum(self) -> Evaluator:
        left = self._unary()
        while self._peek("+", "-"):
            sign = self._next("symbol")
            left = _added(left, self._unary(), 1 if sign == "+" else -1)
        return left

    def _unary(self) -> Evaluator:
        if self._take("!"):
            inner = self._unary()
            return lambda device: _negated(inner(device))
        if self._take("-"):
            inner = self._unary()
            return lambda device: -inner(device)
        return self._member()

    def _member(self) -> Evaluator:
        value = self._primary()
        while True:
            if self._take("."):
                name = self._next("name")
                value = self._method(value, name) if self._take("(") else _field(value, name)
            elif self._take("["):
                key = self._or()
                self._expect("]")
                value = _item(value, key)
            else:
                return value

    def _method(self, value: Evaluator, name: str) -> Evaluator:
        if name not in _METHODS:
            raise UnsupportedSelectorError(f"the method {name} is not supported in a device selector")
        arguments: list[Evaluator] = []
        if not self._take(")"):
            arguments.append(self._or())
            self._expect(")")
        if len(arguments) != (name != "lowerAscii"):
            raise UnsupportedSelectorError(f"the method {name} takes another number of arguments")
        return lambda device: _call(name, value(device), *(one(device) for one in arguments))

    def _primary(self) -> Evaluator:
        if self._take("("):
            inner = self._or()
            self._expect(")")
            return inner
        if self._take("["):
            return self._list()
        if self._at >= len(self._tokens):
            raise self._unsupported()
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            number = Fraction(text)
            return lambda _: number
        if kind == "string":
            literal = re.sub(r"\\(.)", r"\1", text[1:-1])
            return lambda _: literal
        if kind == "name":
            return self._named(text)
        self._at -= 1
        raise self._unsupported()

    def _list(self) -> Evaluator:
        entries: list[Evaluator] = []
        while not self._take("]"):
            entries.append(self._or())
            if not self._peek("]"):
                self._expect(",")
        return lambda device: [entry(device) for entry in entries]

    def _named(self, name: str) -> Evaluator:
        if name in ("true", "false"):
            return lambda _: name == "true"
        if name == "device":
            return lambda device: device
        if name == "quantity":
            self._expect("(")
            text = self._next("string")[1:-1]
            self._expect(")")
            try:
                amount = Fraction(parse_quantity(text))
            except QuantityError as error:
                raise UnsupportedSelectorError(str(error)) from error
            return lambda _: amount
        if name == "has":
            self._expect("(")
            inner = self._member()
            self._expect(")")
            return lambda device: _present(inner, device)
        raise UnsupportedSelectorError(f"{name} is not supported in a device selector")


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: _same_type(a, b) and a == b,
    "!=": lambda a, b: not (_same_type(a, b) and a == b),
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}


def _same_type(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool)


def _negated(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a bool")
    return not value


def _added(left: Evaluator, right: Evaluator, sign: int) -> Evaluator:
    return lambda device: left(device) + right(device) if sign > 0 else left(device) - right(device)


def _present(inner: Evaluator, device: DeviceFacts) -> bool:
    try:
        inner(device)
    except _Missing:
        return False
    return True


def _field(value: Evaluator, name: str) -> Evaluator:
    def read(device: DeviceFacts) -> Any:
        owner = value(device)
        if isinstance(owner, DeviceFacts):
            if name not in ("driver", "attributes", "capacity"):
                raise _Missing
            return getattr(owner, name)
        if isinstance(owner, Mapping) and name in owner:
            return owner[name]
        raise _Missing

    return read


def _item(value: Evaluator, key: Evaluator) -> Evaluator:
    def read(device: DeviceFacts) -> Any:
        owner, wanted = value(device), key(device)
        if owner is device.attributes or owner is device.capacity:
            return owner.get(wanted, {})  # every domain exists, an unknown one is empty
        if isinstance(owner, Mapping) and wanted in owner:
            return owner[wanted]
        if isinstance(owner, list) and isinstance(wanted, Fraction) and 0 <= wanted < len(owner):
            return owner[int(wanted)]
        raise _Missing

    return read


def _call(name: str, value: Any, *arguments: Any) -> Any:
    other = arguments[0] if arguments else None
    if name in ("compareTo", "isGreaterThan", "isLessThan"):
        order = (value > other) - (value < other)
        return {"compareTo": Fraction(order), "isGreaterThan": order > 0, "isLessThan": order < 0}[name]
    if not isinstance(value, str):
        raise TypeError("not a string")
    if name == "lowerAscii":
        return value.lower()
    if not isinstance(other, str):
        raise TypeError("not a string")
    if name == "contains":
        return other in value
    return value.startswith(other) if name == "startsWith" else value.endswith(other)
