"""Checks a value against a schema; the texts are those of a Kubernetes API server.

On an update, a part of the object that is as it was is not checked again, so that a stricter schema does not lock
users out of objects that they cannot repair at once (Kubernetes calls this ratcheting).
"""

from __future__ import annotations

import base64
import ipaddress
import math
import re
from collections.abc import Callable, Iterator
from datetime import date
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

import msgspec

from unisono.api import names
from unisono.api.field_error import FieldError, duplicate, invalid, json_type, not_supported, required
from unisono.api.patterns import PatternError, compile_pattern
from unisono.api.structural.node import ABSENT, Node

# Lists that are sets or maps: no member, or no key, twice.

_ENCODE = msgspec.json.Encoder(order="deterministic").encode


def check_lists(node: Node | None, value: Any, path: str = "") -> Iterator[FieldError]:
    """Every member of a set, or key of a map list, that is there more than once; told at its second place."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, each in value.items():
            below = node.properties.get(name)
            if below is not None:
                yield from check_lists(below, each, f"{path}.{name}" if path else name)
            elif node.additional is not None:
                yield from check_lists(node.additional, each, f"{path}[{name}]")
    elif isinstance(value, list):
        if node.list_type == "set":
            yield from _repeated(value, value, path)
        elif node.list_type == "map":
            yield from _map_list(node, value, path)
        for index, each in enumerate(value):
            yield from check_lists(node.items, each, f"{path}[{index}]")


def map_key(node: Node, item: Any) -> dict[str, Any]:
    """The fields of an item of a map list that are its key."""
    return {name: item[name] for name in node.list_map_keys if name in item} if isinstance(item, dict) else {}


def identity(value: Any) -> Any:
    """Equal for equal JSON values only: 1 and true differ, and so do 1 and "1"."""
    return value if isinstance(value, str) else _ENCODE(value)


def _map_list(node: Node, value: list[Any], path: str) -> Iterator[FieldError]:
    for index, each in enumerate(value):
        if each is not None and not isinstance(each, dict):
            yield invalid(f"{path}[{index}]", each, "must be an object for an array of list-type map")
            return
    keys = [map_key(node, each) for each in value]
    yield from _repeated(keys, keys, path)


def _repeated(members: list[Any], shown: list[Any], path: str) -> Iterator[FieldError]:
    seen: dict[Any, int] = {}
    for index, each in enumerate(members):
        times = seen[identity(each)] = seen.get(identity(each), 0) + 1
        if times == 2:
            yield duplicate(f"{path}[{index}]", shown[index])


# The ``format`` of strings: those that Kubernetes checks; every other name says nothing.

Check = Callable[[str], bool]


def _matches(pattern: str, flags: int = 0) -> Check:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _try(parse: Callable[[str], object]) -> Check:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


_HEX = "[0-9a-f]"
_ADDRESS = re.compile(r"[^@\s<>()\[\],;:\\\"]+@[^@\s<>()\[\],;:\\\"]+", re.ASCII)
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
# One way only to read each text: two would take the square of the digits, while everything else waits.
_GO_DURATION = re.compile(r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
_UNIT = r"(nanos?e?c?|ns|micros?e?c?|us|µs|millis?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d|weeks?|w)"
_WORDY_DURATION = re.compile(rf"\d\s*{_UNIT}", re.IGNORECASE)
_LABEL = re.compile(r"[^\W_]([\w-]{0,61}[^\W_])?")


def _date(text: str) -> bool:
    return re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII) is not None and _try(date.fromisoformat)(text)


def _date_time(text: str) -> bool:
    day, separator, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest)
    if not separator or not _date(day) or match is None:
        return False
    return match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _uri(text: str) -> bool:
    if not text or any(ord(char) < 0x21 or ord(char) == 0x7F for char in text):
        return False
    return text.startswith("/") or (_try(urlsplit)(text) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:.", text) is not None)


def _email(text: str) -> bool:
    inside = re.fullmatch(r"[^<>]*<([^<>]+)>", text.strip())
    return _ADDRESS.fullmatch(inside[1] if inside else text.strip()) is not None


def _hostname(text: str) -> bool:
    parts = text.split(".")
    if len(text.encode()) > 255 or not all(_LABEL.fullmatch(part) for part in parts):
        return False
    return len(parts) == 1 or (len(parts[-1]) >= 2 and not any(char.isdigit() for char in parts[-1]))


def _ip(version: int) -> Check:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _byte(text: str) -> bool:
    return _try(lambda raw: base64.b64decode(raw, validate=True))(text)


def _duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None or _WORDY_DURATION.search(text) is not None


def _digits(text: str) -> list[int]:
    return [10 if char in "Xx" else int(char) for char in re.sub(r"[\s-]", "", text) if char.isdigit() or char in "Xx"]


def _isbn10(text: str) -> bool:
    digits = _digits(text)
    if len(digits) != 10 or 10 in digits[:9] or not re.fullmatch(r"[0-9Xx\s-]+", text):
        return False
    return sum((10 - index) * digit for index, digit in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = _digits(text)
    if len(digits) != 13 or 10 in digits or not re.fullmatch(r"[0-9\s-]+", text):
        return False
    return sum(digit * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = [int(char) for char in re.sub(r"[^0-9]", "", text)]
    if not 13 <= len(digits) <= 19:
        return False
    doubled = (digit * 2 if index % 2 else digit for index, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _rgb(text: str) -> bool:
    match = re.fullmatch(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", text, re.ASCII)
    return match is not None and all(int(part) <= 255 for part in match.groups())


def _uuid(third: str, fourth: str = "") -> Check:
    groups = (f"{_HEX}{{8}}", f"{_HEX}{{4}}", third or f"{_HEX}{{4}}", fourth or f"{_HEX}{{4}}", f"{_HEX}{{12}}")
    return _matches("-?".join(groups), re.IGNORECASE)


_VARIANT = f"[89ab]{_HEX}{{3}}"
_CHECKS: dict[str, Check] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}", re.IGNORECASE),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ip(4),
    "ipv6": _ip(6),
    "cidr": lambda text: "/" in text and _try(lambda raw: ipaddress.ip_network(raw, strict=False))(text),
    "mac": _matches(
        rf"{_HEX}{{2}}([:-]{_HEX}{{2}}){{5}}(([:-]{_HEX}{{2}}){{2}})?|({_HEX}{{4}}\.){{2}}{_HEX}{{4}}", re.I
    ),
    "uuid": _uuid(""),
    "uuid3": _uuid(f"3{_HEX}{{3}}"),
    "uuid4": _uuid(f"4{_HEX}{{3}}", _VARIANT),
    "uuid5": _uuid(f"5{_HEX}{{3}}", _VARIANT),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-f]{3}|[0-9a-f]{6})", re.IGNORECASE),
    "rgbcolor": _rgb,
    "byte": _byte,
    "password": lambda text: True,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "k8sshortname": lambda text: not names.dns_label(text),
    "k8slongname": lambda text: not names.dns_subdomain(text),
}


def find_check(name: str) -> Check | None:
    """The check of a format (dashes do not count); None for names that say nothing."""
    return _CHECKS.get(name.replace("-", ""))


# The path of errors that Kubernetes tells without one.
NOWHERE = "<nil>"
_RANGES = {"int32": (-(2**31), 2**31 - 1)}
_INT64 = (-(2**63), 2**63 - 1)


def check_value(node: Node, value: Any, old: Any = ABSENT) -> list[FieldError]:
    """Everything in ``value`` that the schema does not allow.

    Args:
        node: the schema.
        value: decoded JSON, pruned and defaulted.
        old: the value before an update.
    """
    walk = _CheckingWalk()
    walk.node(node, value, old, "")
    return walk.errors


class _CheckingWalk:
    """Collects errors; ``matches`` counts what was right, to tell the nearest alternative of anyOf and oneOf."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.matches = 0

    def node(self, node: Node, value: Any, old: Any, path: str) -> None:
        if old is not ABSENT and value is not None and identity(old) == identity(value):
            self.matches += 1
            return
        self._type(node, value, path)
        if value is not None:
            self._logic(node, value, old, path)
            match value:
                case bool():
                    pass
                case str():
                    self._check(_text(node, value, path))
                case int() | float():
                    self._check(check_number(node, value, path))
                case list():
                    self._list(node, value, old, path)
                case dict():
                    self._object(node, value, old, path)
        allowed = node.bounds.get("enum")
        if allowed and not any(same_number(each, value) for each in allowed):
            shown = [each if isinstance(each, str) else identity(each).decode() for each in allowed]
            self.errors.append(not_supported(path, value, shown))
        self.matches += 1

    def _check(self, errors: Iterator[FieldError]) -> None:
        before = len(self.errors)
        self.errors.extend(errors)
        self.matches += len(self.errors) == before

    def _type(self, node: Node, value: Any, path: str) -> None:
        wrong = _wrong_type(node, value)
        if wrong is None:
            self.matches += 1
            return
        expected, actual = wrong
        text = f'{path} in body must be of type {expected}: "{actual}"'
        self.errors.append(FieldError(path or NOWHERE, "FieldValueTypeInvalid", actual, text))

    def _list(self, node: Node, value: list[Any], old: Any, path: str) -> None:
        if node.items is not None:
            before = _items_before(node, old)
            for index, each in enumerate(value):
                self.node(node.items, each, before(each), f"{path}[{index}]")
        self._check(_size(node, len(value), "Items", "items", path))

    def _object(self, node: Node, value: dict[str, Any], old: Any, path: str) -> None:
        self._check(_size(node, len(value), "Properties", "properties", path))
        before = old if isinstance(old, dict) else {}
        for name, each in value.items():
            at = f"{path}.{name}" if path else name
            below = node.child(name)
            if below is not None:
                self.node(below, each, before.get(name, ABSENT), at)
            elif node.open is False:
                self.errors.append(invalid(path or NOWHERE, name, f"{path}.{name} in body is a forbidden property"))
        for name in node.required:
            if name not in value:
                self.errors.append(required(f"{path}.{name}" if path else name))

    def _logic(self, node: Node, value: Any, old: Any, path: str) -> None:
        if node.any_of:
            self._any_of(node.any_of, value, old, path)
        if node.one_of:
            self._one_of(node.one_of, value, old, path)
        if node.all_of:
            self._all_of(node.all_of, value, old, path)
        if node.negated is not None and not _tried(node.negated, value, old, path).errors:
            self._composite(f'"{path}" must not validate the schema (not)')

    def _composite(self, text: str) -> None:
        self.errors.append(invalid(NOWHERE, "", text))

    def _any_of(self, nodes: tuple[Node, ...], value: Any, old: Any, path: str) -> None:
        tried = [_tried(each, value, old, path) for each in nodes]
        if all(each.errors for each in tried):
            self._composite(f'"{path}" must validate at least one schema (anyOf)')
            self.errors += max(tried, key=lambda each: each.matches).errors

    def _one_of(self, nodes: tuple[Node, ...], value: Any, old: Any, path: str) -> None:
        tried = [_tried(each, value, old, path) for each in nodes]
        valid = sum(1 for each in tried if not each.errors)
        if valid == 1:
            return
        outcome = f"Found {valid} valid alternatives" if valid else "Found none valid"
        self._composite(f'"{path}" must validate one and only one schema (oneOf). {outcome}')
        if not valid:
            self.errors += max(tried, key=lambda each: each.matches).errors

    def _all_of(self, nodes: tuple[Node, ...], value: Any, old: Any, path: str) -> None:
        tried = [_tried(each, value, old, path) for each in nodes]
        for each in tried:
            self.errors += each.errors
        valid = sum(1 for each in tried if not each.errors)
        if valid < len(nodes):
            none = "" if valid else ". None validated"
            self._composite(f'"{path}" must validate all the schemas (allOf){none}')


def _tried(node: Node, value: Any, old: Any, path: str) -> _CheckingWalk:
    walk = _CheckingWalk()
    walk.node(node, value, old, path)
    return walk


def _items_before(node: Node, old: Any) -> Callable[[Any], Any]:
    """Which item of the old list an item continues: only lists with keys tell."""
    if node.list_type != "map" or not isinstance(old, list):
        return lambda item: ABSENT
    items_by_key = {identity(map_key(node, each)): each for each in old}
    return lambda item: items_by_key.get(identity(map_key(node, item)), ABSENT)


def _wrong_type(node: Node, value: Any) -> tuple[str, str] | None:
    """Expected and actual type when they differ."""
    types = node.types
    expected = _known_format(node)
    if not types and not expected:
        return None
    actual = json_type(value)
    listed = ",".join(types)
    if value is None:
        return None if node.nullable or not types else (listed, actual)
    fits = actual in types or (actual == "integer" and "number" in types)
    fits = fits or (isinstance(value, float) and value.is_integer() and "integer" in types)
    if isinstance(value, str | list):
        numeric = "number" in types or "integer" in types
        if expected and not numeric:
            return None
    elif expected and not fits:
        return expected, {"integer": "int64", "number": "float64"}.get(actual, "")
    return None if fits else (listed, actual)


def _known_format(node: Node) -> str:
    formats = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(node.type)
    if formats is not None:
        return node.format if node.format in formats else ""
    if node.type not in ("", "string") or find_check(node.format) is None:
        return ""
    return node.format


def _text(node: Node, value: str, path: str) -> Iterator[FieldError]:
    bounds = node.bounds
    longest, shortest, pattern = bounds.get("maxLength"), bounds.get("minLength"), bounds.get("pattern")
    if longest is not None and len(value) > longest:
        unit = "byte" if longest == 1 else "bytes"
        yield FieldError(path, "FieldValueTooLong", "", f"may not be more than {longest} {unit}")
    elif shortest is not None and len(value) < shortest:
        yield invalid(path, value, f"{path} in body should be at least {shortest} chars long")
    elif pattern and not _fits(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    check = find_check(node.format) if _known_format(node) else None
    if check is not None and not check(value):
        text = f'{path} in body must be of type {node.format}: "{value}"'
        yield FieldError(path, "FieldValueTypeInvalid", value, text)


def _fits(pattern: str, value: str) -> bool:
    try:
        return compile_pattern(pattern).found_in(value)
    except PatternError:
        return False


def _size(node: Node, size: int, what: str, word: str, path: str) -> Iterator[FieldError]:
    most, least = node.bounds.get(f"max{what}"), node.bounds.get(f"min{what}")
    if least is not None and size < least:
        yield invalid(path or NOWHERE, size, f"{path} in body should have at least {show_number(least)} {word}")
    if most is not None and size > most:
        unit = "item" if most == 1 else "items"
        yield FieldError(path or NOWHERE, "FieldValueTooMany", size, f"must have at most {show_number(most)} {unit}")


def show_number(value: float) -> str:
    """A number as Go prints it: whole numbers without a fraction."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def same_number(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; 1 and 1.0 are, 1 and true are not."""
    return bool(_plain(left) == _plain(right))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return identity(value)


def check_number(node: Node, value: float, path: str) -> Iterator[FieldError]:
    """Format, multipleOf, maximum and minimum."""
    if node.type == "integer" and len(node.types) == 1:
        first, last = _RANGES.get(node.format, _INT64)
        if not first <= value <= last or (isinstance(value, float) and not value.is_integer()):
            form = f"with format {node.format}" if node.format in ("int32", "int64") else "(default format)"
            yield invalid("<nil>", "", f"Checked value must be of type integer {form} in {path}")
    bounds = node.bounds
    step = bounds.get("multipleOf")
    if step and not _divides(step, value):
        yield invalid(path, value, f"{path} in body should be a multiple of {show_number(step)}")
    highest, lowest = bounds.get("maximum"), bounds.get("minimum")
    if highest is not None:
        strict = bounds.get("exclusiveMaximum") is True
        if value > highest or (strict and value == highest):
            word = "less than" if strict else "less than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {show_number(highest)}")
    if lowest is not None:
        strict = bounds.get("exclusiveMinimum") is True
        if value < lowest or (strict and value == lowest):
            word = "greater than" if strict else "greater than or equal to"
            yield invalid(path, value, f"{path} in body should be {word} {show_number(lowest)}")


def _divides(step: float, value: float) -> bool:
    if isinstance(step, int) and isinstance(value, int):
        return value % step == 0
    if not (math.isfinite(step) and math.isfinite(value)):
        return False
    # In decimal, as people read them: 0.3 is a multiple of 0.1.
    return Fraction(repr(value)) % Fraction(repr(step)) == 0
