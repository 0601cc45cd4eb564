"""Regular expressions that users write, in Go's syntax as everywhere in Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_POSIX = re.compile(r"\[:(\^?)(\w+):\]")


class PatternError(ValueError):
    """The text is no regular expression."""


class Pattern:
    """A compiled expression."""

    __slots__ = ("_expression",)

    def __init__(self, expression: re.Pattern[str]) -> None:
        self._expression = expression

    def found_in(self, text: str) -> bool:
        """Whether the expression matches some part of a text."""
        return self._expression.search(text) is not None

    def all_in(self, text: str) -> Iterator[str]:
        """The parts of a text that match, from left to right, without overlaps."""
        return (found.group() for found in self._expression.finditer(text))


@lru_cache(maxsize=4096)
def compile_pattern(text: str) -> Pattern:
    """The expression.

    Raises:
        PatternError: the text is no regular expression, or one that Python cannot run (Unicode classes).

    """
    try:
        # Go's \d, \w and \b know ASCII only.
        return Pattern(re.compile(_translate(text), re.ASCII))
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"error parsing regexp: {error}: `{text}`") from None


def _translate(text: str) -> str:
    flags = re.match(r"\^?\(\?[ims]+\)", text)
    if flags and flags.group().startswith("^"):
        # Python wants global flags first.
        text = flags.group()[1:] + "^" + text[flags.end() :]
    parts: list[str] = []
    position, in_class = 0, False
    while position < len(text):
        char = text[position]
        if char == "\\":
            escape = text[position : position + 2]
            if escape == r"\Q":
                end = text.find(r"\E", position)
                end = len(text) if end < 0 else end
                parts.append(re.escape(text[position + 2 : end]))
                position = end + 2
                continue
            parts.append(r"\Z" if escape == r"\z" else escape)
            position += 2
            continue
        if in_class:
            posix = _POSIX.match(text, position)
            if posix and posix[2] in _CLASSES and not posix[1]:
                parts.append(_CLASSES[posix[2]])
                position = posix.end()
                continue
            in_class = char != "]"
        elif char == "[":
            in_class = True
            # A bracket that closes at once is a member of the class.
            opening = re.match(r"\[\^?\]?", text[position:])
            found = opening.group() if opening else "["
            parts.append(found)
            position += len(found)
            continue
        elif char == "$":
            # Python's $ also matches before a final line break.
            char = r"\Z" if not re.match(r"\(\?\w*m", text) else "$"
        parts.append(char)
        position += 1
    return "".join(parts)
