"""Regular expressions that users write, in Go's syntax as everywhere in Kubernetes, run in linear time by RE2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import re2

# One expression takes at most this much memory; Go's own limit lets through more, which no schema has needed so far.
_LARGEST = 2 * 1024 * 1024
_LONGEST = 16 * 1024
# Instructions of the program times bytes of the text: what RE2 takes at worst. This much is about a second.
_MOST_WORK = 500_000_000

# RE2's words and Go's for the same fault, from regexp/syntax.
_IN_GO = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
    "pattern too large - compile failed": "expression too large",
}


class PatternError(ValueError):
    """The text is no regular expression, or takes more work than is allowed."""


class Pattern:
    """A compiled expression."""

    __slots__ = ("_expression", "_size")

    def __init__(self, expression: re2._Regexp) -> None:
        self._expression = expression
        self._size = expression.programsize

    def found_in(self, text: str) -> bool:
        """Whether the expression matches some part of a text.

        Raises:
            PatternError: the text is too long for an expression of this size.
        """
        self._check(text)
        return self._expression.search(text) is not None

    def all_in(self, text: str) -> Iterator[str]:
        """The parts of a text that match, from left to right, without overlaps.

        Raises:
            PatternError: the text is too long for an expression of this size.
        """
        self._check(text)
        return (found.group() for found in self._expression.finditer(text))

    def _check(self, text: str) -> None:
        if self._size * len(text) > _MOST_WORK:
            raise PatternError(f"the text of {len(text)} characters is too long for the regular expression")


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> Pattern:
    """The expression.

    Raises:
        PatternError: the text is no regular expression of Go's, or a very large one; in Go's words.
    """
    if len(text) > _LONGEST:
        raise PatternError(f"error parsing regexp: expression too large: it has more than {_LONGEST} characters")
    if _matches_bytes(text):
        raise PatternError(r"error parsing regexp: invalid escape sequence: `\C`")
    try:
        return Pattern(re2.compile(text, _options()))
    except UnicodeEncodeError:
        raise PatternError("error parsing regexp: invalid UTF-8") from None
    except re2.error as error:
        raise PatternError(f"error parsing regexp: {_in_go(_text(error))}") from None


@lru_cache(maxsize=1)
def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _LARGEST
    return options


def _text(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _in_go(said: str) -> str:
    fault, colon, where = said.partition(": ")
    fault = _IN_GO.get(fault, fault)
    return f"{fault}: `{where}`" if colon else fault


def _matches_bytes(text: str) -> bool:
    r"""Whether the text uses ``\C``, which RE2 knows and Go does not."""
    at, quoted = 0, False
    while (at := text.find("\\", at)) >= 0:
        following = text[at + 1 : at + 2]
        if not quoted and following == "C":
            return True
        quoted = (quoted or following == "Q") and following != "E"
        at += 1 if quoted and following == "\\" else 2
    return False
