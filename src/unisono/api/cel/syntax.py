"""The grammar of CEL: from text to a tree, in bounded length and depth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from unisono.api.cel.values import CompileError, UInt

LONGEST = 10 * 1024
"""Characters of an expression; Kubernetes' ``CELSelectorExpressionMaxLength``."""
DEEPEST = 64
"""Levels of an expression, so that neither reading nor running it leaves the stack of a thread."""
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)"""
    r"""|(?P<text>[rR]?[bB]?[rR]?(?:\"{3}|'{3}|"|'))"""
    r"""|(?P<number>0[xX][0-9a-fA-F]+[uU]?|(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+[uU]?)"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<symbol>&&|\|\||==|!=|<=|>=|[-+*/%!<>()\[\]{},.?:])"""
)
_BACKTICK = re.compile(r"`([A-Za-z0-9_.\-/ ]+)`")
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))", re.DOTALL
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
Token = tuple[str, Any, int]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A variable or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field; ``optional`` as in ``a.?b``."""

    operand: Expression
    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, a method of ``target``, a macro or an operator (``_+_``, ``_?_:_``, ``_[_]``, ``_[?_]``)."""

    name: str
    target: Expression | None
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; ``optional`` are positions of entries that may be absent."""

    entries: tuple[Expression, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map; ``optional`` as in lists."""

    entries: tuple[tuple[Expression, Expression], ...]
    optional: frozenset[int] = frozenset()


Expression = Literal | Ident | Select | Call | ListOf | MapOf

_RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_LEVELS: tuple[frozenset[str], ...] = (
    frozenset(("==", "!=", "<", "<=", ">", ">=", "in")),
    frozenset("+-"),
    frozenset("*/%"),
)


def parse(text: str) -> Expression:
    """The tree of an expression.

    Raises:
        CompileError: the text is no CEL, or has more characters or levels than are allowed.
    """
    if len(text) > LONGEST:
        raise CompileError(f"the expression has more than {LONGEST} characters")
    return _Parser(text).whole()


class _Parser:
    """Precedence climbing; every level of the grammar that nests counts against the depth."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0
        self._heights: dict[int, int] = {}
        self._kept: list[Expression] = []

    def whole(self) -> Expression:
        expression = self._expression()
        if self._tokens[self._at][0] != "end":
            raise self._unexpected()
        return expression

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise CompileError(f"the expression is nested more than {DEEPEST} levels deep")
        expression = self._chain("||", "_||_")
        if self._take("?"):
            then = self._chain("||", "_||_")
            self._expect(":")
            expression = self._made(Call("_?_:_", None, (expression, then, self._expression())))
        self._depth -= 1
        return expression

    def _chain(self, symbol: str, name: str) -> Expression:
        """``||`` and ``&&`` with all their operands at once, so that long chains are not deep."""
        below = self._conjunction if symbol == "||" else self._relation
        parts = [below()]
        while self._take(symbol):
            parts.append(below())
        return parts[0] if len(parts) == 1 else self._made(Call(name, None, tuple(parts)))

    def _conjunction(self) -> Expression:
        return self._chain("&&", "_&&_")

    def _relation(self) -> Expression:
        return self._binary(0)

    def _binary(self, level: int) -> Expression:
        if level == len(_LEVELS):
            return self._unary()
        expression = self._binary(level + 1)
        while self._tokens[self._at][0] in ("symbol", "name") and self._tokens[self._at][1] in _LEVELS[level]:
            symbol = self._next()[1]
            expression = self._made(Call(f"_{symbol}_", None, (expression, self._binary(level + 1))))
        return expression

    def _unary(self) -> Expression:
        signs = 0
        symbol = self._tokens[self._at][1] if self._tokens[self._at][0] == "symbol" else ""
        if symbol not in ("!", "-"):
            return self._member()
        while self._take(symbol):
            signs += 1
        kind, value, _ = self._tokens[self._at]
        number = kind == "literal" and isinstance(value, int | float) and not isinstance(value, bool | UInt)
        if symbol == "-" and number and signs % 2:
            self._tokens[self._at] = (kind, -value, self._tokens[self._at][2])
            signs -= 1
        elif kind == "literal" and value == 2**63 and not isinstance(value, UInt | float):
            raise CompileError(f"invalid int literal: {value}")
        expression = self._member()
        for _ in range(signs % 2 or 2 * bool(signs)):
            expression = self._made(Call(f"{symbol}_", None, (expression,)))
        return expression

    def _member(self) -> Expression:
        expression = self._primary()
        while True:
            if self._take("."):
                expression = self._selected(expression)
            elif self._take("["):
                optional = self._take("?")
                key = self._expression()
                self._expect("]")
                expression = self._made(Call("_[?_]" if optional else "_[_]", None, (expression, key)))
            elif isinstance(expression, Ident | Select) and self._is("{"):
                raise CompileError("Syntax error: messages are not supported")
            else:
                return expression

    def _selected(self, operand: Expression) -> Expression:
        optional = self._take("?")
        kind, name, _ = self._tokens[self._at]
        if kind not in ("name", "quoted"):
            raise self._unexpected()
        self._at += 1
        if kind == "name" and not optional and self._take("("):
            return self._made(Call(name, operand, self._arguments()))
        return self._made(Select(operand, name, optional))

    def _arguments(self) -> tuple[Expression, ...]:
        arguments: list[Expression] = []
        while not self._take(")"):
            arguments.append(self._expression())
            if not self._is(")"):
                self._expect(",")
        return tuple(arguments)

    def _primary(self) -> Expression:
        self._take(".")  # a name from the root
        kind, value, _ = self._tokens[self._at]
        if kind not in ("literal", "name") and (kind != "symbol" or value not in ("(", "[", "{")):
            raise self._unexpected()
        self._at += 1
        if kind == "literal":
            if value == 2**63 and isinstance(value, int) and not isinstance(value, UInt):
                raise CompileError(f"invalid int literal: {value}")
            return Literal(value)
        if kind == "name":
            return self._named(value)
        if value == "(":
            expression = self._expression()
            self._expect(")")
            return expression
        return self._list() if value == "[" else self._map()

    def _named(self, name: str) -> Expression:
        if name in ("true", "false", "null"):
            return Literal({"true": True, "false": False, "null": None}[name])
        if name in _RESERVED:
            raise CompileError(f"Syntax error: reserved identifier: {name}")
        if self._take("("):
            return self._made(Call(name, None, self._arguments()))
        return Ident(name)

    def _list(self) -> Expression:
        entries: list[Expression] = []
        optional = set[int]()
        while not self._take("]"):
            if self._take("?"):
                optional.add(len(entries))
            entries.append(self._expression())
            if not self._is("]"):
                self._expect(",")
        return self._made(ListOf(tuple(entries), frozenset(optional)))

    def _map(self) -> Expression:
        entries: list[tuple[Expression, Expression]] = []
        optional = set[int]()
        while not self._take("}"):
            if self._take("?"):
                optional.add(len(entries))
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression()))
            if not self._is("}"):
                self._expect(",")
        return self._made(MapOf(tuple(entries), frozenset(optional)))

    def _made(self, found: Expression) -> Expression:
        """Refuse a tree that chains of operators and members have made too high."""
        height = 1 + max((self._heights.get(id(each), 0) for each in children(found)), default=0)
        if height > DEEPEST:
            raise CompileError(f"the expression is nested more than {DEEPEST} levels deep")
        self._heights[id(found)] = height
        self._kept.append(found)  # ids are only good as long as their objects live
        return found

    def _next(self) -> Token:
        token = self._tokens[self._at]
        self._at += token[0] != "end"
        return token

    def _is(self, symbol: str) -> bool:
        return self._tokens[self._at][:2] == ("symbol", symbol)

    def _take(self, symbol: str) -> bool:
        taken = self._is(symbol)
        self._at += taken
        return taken

    def _expect(self, symbol: str) -> None:
        if not self._take(symbol):
            raise self._unexpected(f", expecting '{symbol}'")

    def _unexpected(self, more: str = "") -> CompileError:
        _, value, at = self._tokens[self._at]
        return CompileError(f"Syntax error: mismatched input '{str(value)[:40]}' at position {at}{more}")


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly below one."""
    match expression:
        case Select(operand=operand):
            return (operand,)
        case Call(target=target, arguments=arguments):
            return arguments if target is None else (target, *arguments)
        case ListOf(entries=entries):
            return entries
        case MapOf(entries=pairs):
            return tuple(each for pair in pairs for each in pair)
        case _:
            return ()


def references(expression: Expression) -> set[str]:
    """Names that an expression uses; those that its macros bind are among them."""
    names = {expression.name} if isinstance(expression, Ident) else set()
    return names.union(*(references(each) for each in children(expression)))


def tokens(text: str) -> list[Token]:
    """The tokens of a text, the last of which is its end: kind, value and position.

    Raises:
        CompileError: something is no token, a string is not closed, or a number does not fit.
    """
    result: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            quoted = _BACKTICK.match(text, at)
            if quoted is None:
                raise CompileError(f"Syntax error: token recognition error at: {text[at : at + 10]!r}")
            result.append(("quoted", quoted[1], at))
            at = quoted.end()
            continue
        kind, value = match.lastgroup, match.group()
        if kind == "text":
            literal, at = _string(text, match)
            result.append(("literal", literal, match.start()))
            continue
        if kind == "number":
            result.append(("literal", _number(value), at))
        elif kind != "space":
            result.append((kind or "", value, at))
        at = match.end()
    result.append(("end", "<EOF>", at))
    return result


def _string(text: str, opening: re.Match[str]) -> tuple[str | bytes, int]:
    prefix = opening.group().rstrip("\"'")
    quote = opening.group()[len(prefix) :]
    raw, at = "r" in prefix.lower(), opening.end()
    start = at
    while True:
        if at >= len(text) or (len(quote) == 1 and text[at] == "\n"):
            raise CompileError("Syntax error: a string is not closed")
        if text.startswith(quote, at):
            break
        at += 2 if text[at] == "\\" and not raw else 1
    body = text[start:at]
    as_bytes = "b" in prefix.lower()
    value = body if raw else _ESCAPE.sub(lambda found: _unescaped(found, as_bytes=as_bytes), body)
    if not as_bytes:
        return value, at + len(quote)
    return value.encode("utf-8", "surrogateescape"), at + len(quote)


def _unescaped(found: re.Match[str], *, as_bytes: bool) -> str:
    simple, byte, short, long, octal, wrong = found.groups()
    if wrong is not None:
        raise CompileError(f"Syntax error: {found.group()} is no escape sequence")
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    number = int(octal, 8) if octal else int(byte or short or long, 16)
    if as_bytes and (byte or octal):
        return bytes((number,)).decode("utf-8", "surrogateescape")
    if 0xD800 <= number < 0xE000 or number > 0x10FFFF:
        raise CompileError(f"Syntax error: {found.group()} is no character")
    return chr(number)


def _number(text: str) -> Any:
    unsigned = text[-1] in "uU"
    body = text[:-1] if unsigned else text
    if any(char in ".eE" for char in body) and not body.lower().startswith("0x"):
        return float(body)
    if len(body) > 25:
        raise CompileError(f"invalid int literal: {body[:25]}...")
    number = int(body, 16 if body.lower().startswith("0x") else 10)
    if number >= 2**64 or (not unsigned and number > 2**63):
        raise CompileError(f"invalid int literal: {body}")
    return UInt(number) if unsigned else number
