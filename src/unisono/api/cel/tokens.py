"""The tokens of CEL: names, symbols, numbers and strings with their escapes."""

from __future__ import annotations

import re
from typing import Any

from unisono.api.cel.errors import CompileError
from unisono.api.cel.values import UInt

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


def tokens(text: str) -> list[Token]:
    """The tokens of a text, the last of which is its end: kind, value and position.

    Raises:
        CompileError: something is no token, a string is not closed, or a number does not fit.

    """
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            quoted = _BACKTICK.match(text, at)
            if quoted is None:
                raise CompileError(f"Syntax error: token recognition error at: {text[at : at + 10]!r}")
            found.append(("quoted", quoted[1], at))
            at = quoted.end()
            continue
        kind, value = match.lastgroup, match.group()
        if kind == "text":
            literal, at = _string(text, match)
            found.append(("literal", literal, match.start()))
            continue
        if kind == "number":
            found.append(("literal", _number(value), at))
        elif kind != "space":
            found.append((kind or "", value, at))
        at = match.end()
    found.append(("end", "<EOF>", at))
    return found


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
