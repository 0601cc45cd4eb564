"""Functions of strings."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from unisono.api.cel.errors import EvaluationError, no_overload
from unisono.api.patterns import PatternError, compile_pattern

_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = {lower: upper for upper, lower in _LOWER.items()}
_MOST_DIGITS = 100


def text(value: Any, name: str) -> str:
    """The value, which must be a string.

    Raises:
        EvaluationError: it is none.

    """
    if not isinstance(value, str):
        raise no_overload(name)
    return value


def contains(value: Any, part: Any) -> bool:
    """Whether a part stands somewhere."""
    return text(part, "contains") in text(value, "contains")


def starts_with(value: Any, part: Any) -> bool:
    """Whether a part stands at the beginning."""
    return text(value, "startsWith").startswith(text(part, "startsWith"))


def ends_with(value: Any, part: Any) -> bool:
    """Whether a part stands at the end."""
    return text(value, "endsWith").endswith(text(part, "endsWith"))


def matches(value: Any, pattern: Any) -> bool:
    """Whether a regular expression matches some part."""
    try:
        return compile_pattern(text(pattern, "matches")).found_in(text(value, "matches"))
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def find(value: Any, pattern: Any) -> str:
    """The first part that a regular expression matches, or nothing."""
    return next(iter(find_all(value, pattern, 1)), "")


def find_all(value: Any, pattern: Any, most: int = -1) -> list[str]:
    """The parts that a regular expression matches."""
    try:
        found = compile_pattern(text(pattern, "findAll")).all_in(text(value, "findAll"))
        return list(islice(found, most if most >= 0 else None))
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def split(value: Any, separator: Any, most: int = -1) -> list[str]:
    """The parts between separators."""
    whole, by = text(value, "split"), text(separator, "split")
    if most == 0:
        return []
    if not by:
        return list(whole) if most < 0 else [*whole[: most - 1], whole[most - 1 :]]
    return whole.split(by, most - 1 if most > 0 else -1)


def join(values: Any, separator: Any = "") -> str:
    """All strings of a list, with separators."""
    if not isinstance(values, list):
        raise no_overload("join")
    return text(separator, "join").join(text(each, "join") for each in values)


def replace(value: Any, old: Any, new: Any, most: int = -1) -> str:
    """The string with parts replaced."""
    return text(value, "replace").replace(text(old, "replace"), text(new, "replace"), most)


def lower_ascii(value: Any) -> str:
    """The string with ASCII letters in lower case."""
    return text(value, "lowerAscii").translate(_LOWER)


def upper_ascii(value: Any) -> str:
    """The string with ASCII letters in upper case."""
    return text(value, "upperAscii").translate(_UPPER)


def trim(value: Any) -> str:
    """The string without white space around it."""
    return text(value, "trim").strip()


def reverse(value: Any) -> Any:
    """A string or list from its end."""
    return value[::-1] if isinstance(value, list) else text(value, "reverse")[::-1]


def substring(value: Any, start: int, end: int | None = None) -> str:
    """The part from ``start`` to before ``end``."""
    whole = text(value, "substring")
    end = len(whole) if end is None else end
    if not 0 <= start <= end <= len(whole):
        raise EvaluationError(f"index out of range: {start}")
    return whole[start:end]


def char_at(value: Any, index: int) -> str:
    """One character; nothing behind the last one."""
    whole = text(value, "charAt")
    if not 0 <= index <= len(whole):
        raise EvaluationError(f"index out of range: {index}")
    return whole[index : index + 1]


def index_of(value: str, part: Any, start: int = 0) -> int:
    """Where a part stands first; -1 for nowhere."""
    if not 0 <= start <= len(value):
        raise EvaluationError(f"index out of range: {start}")
    return value.find(text(part, "indexOf"), start)


def last_index_of(value: str, part: Any, start: int | None = None) -> int:
    """Where a part stands last, not behind ``start``; -1 for nowhere."""
    wanted = text(part, "lastIndexOf")
    return value.rfind(wanted) if start is None else value.rfind(wanted, 0, start + len(wanted))


def form(value: Any, arguments: Any) -> str:
    """``'%s has %d'.format([name, number])``."""
    whole = text(value, "format")
    if not isinstance(arguments, list):
        raise no_overload("format")
    parts: list[str] = []
    at, given = 0, iter(arguments)
    while (found := whole.find("%", at)) >= 0:
        parts.append(whole[at:found])
        at = found + 1
        digits = ""
        if whole[at : at + 1] == ".":
            end = at + 1
            while whole[end : end + 1].isdecimal():
                end += 1
            digits, at = whole[at + 1 : end] or "0", end
        verb, at = whole[at : at + 1], at + 1
        if verb == "%":
            parts.append("%")
            continue
        try:
            parts.append(_formed(verb, digits, next(given)))
        except StopIteration:
            raise EvaluationError("index out of range: not enough arguments for the format") from None
    parts.append(whole[at:])
    return "".join(parts)


def _formed(verb: str, digits: str, value: Any) -> str:
    precision = int(digits[:4] or 6)
    if precision > _MOST_DIGITS:
        raise EvaluationError(f"precision of %{verb} is above {_MOST_DIGITS}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match verb:
        case "s":
            return _plain(value)
        case "d" if isinstance(value, int) and number:
            return str(value)
        case "f" | "e" if number:
            return f"{value:.{precision}{verb}}"
        case "b" if isinstance(value, int):
            return f"{value:b}"
        case "o" | "x" | "X" if isinstance(value, int) and number:
            return f"{value:{verb}}"
        case "x" | "X" if isinstance(value, str):
            shown = value.encode().hex()
            return shown.upper() if verb == "X" else shown
    raise EvaluationError(f"could not parse formatting clause: unrecognized formatting clause {verb!r}")


def _plain(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ", ".join(map(_plain, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_plain(key)}: {_plain(each)}" for key, each in sorted(value.items())) + "}"
        case bytes():
            return value.decode("utf-8", "replace")
        case str() | int() | float() | datetime() | timedelta():
            return str(value)
    raise no_overload("format")
