"""Regular expressions of schemas: written in Go's syntax, run by Python's ``re``."""

from __future__ import annotations

import re
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


@lru_cache(maxsize=4096)
def compile_pattern(text: str) -> re.Pattern[str]:
    """The expression; use its ``search``.

    Raises:
        PatternError: the text is no regular expression, or one that Python cannot run (Unicode classes).

    """
    try:
        # Go's \d, \w and \b know ASCII only.
        return re.compile(_translate(text), re.ASCII)
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
