"""Functions of texts, URLs, IP addresses and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from unisono.api.cel.values import EvaluationError, no_overload
from unisono.api.patterns import PatternError, compile_pattern

# Functions of strings.

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
        parts = compile_pattern(text(pattern, "findAll")).all_in(text(value, "findAll"))
        return list(islice(parts, most if most >= 0 else None))
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
    needle = text(part, "lastIndexOf")
    return value.rfind(needle) if start is None else value.rfind(needle, 0, start + len(needle))


def form(value: Any, arguments: Any) -> str:
    """``'%s has %d'.format([name, number])``."""
    whole = text(value, "format")
    if not isinstance(arguments, list):
        raise no_overload("format")
    parts: list[str] = []
    at, given = 0, iter(arguments)
    while (percent := whole.find("%", at)) >= 0:
        parts.append(whole[at:percent])
        at = percent + 1
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


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Url:
    """A URL."""

    parts: SplitResult


@dataclass(frozen=True, slots=True)
class Ip:
    """An IP address."""

    address: _Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network, and the address that its text names."""

    network: _Network
    address: _Address


def _url(value: Any) -> Url:
    given = text(value, "url")
    try:
        parts = urlsplit(given)
        sound = bool((parts.scheme and (parts.netloc or parts.path)) or given.startswith("/")) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise EvaluationError(f"URL parse error during conversion from string: {given[:64]}")
    return Url(parts)


def _ip(value: Any) -> Ip:
    given = text(value, "ip")
    if "%" in given:
        raise EvaluationError(f"IP Address {given[:64]} with zone value is not allowed")
    try:
        return Ip(ipaddress.ip_address(given))
    except ValueError as error:
        raise EvaluationError(f"IP Address {given[:64]} parse error during conversion from string: {error}") from None


def _cidr(value: Any) -> Cidr:
    given = text(value, "cidr")
    address, slash, _ = given.partition("/")
    try:
        if not slash:
            raise ValueError("no prefix length")
        return Cidr(ipaddress.ip_network(given, strict=False), ipaddress.ip_address(address))
    except ValueError as error:
        raise EvaluationError(f"network address parse error during conversion from string: {error}") from None


def _parses(make: Callable[[Any], Any]) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        text(value, "is")
        try:
            make(value)
        except EvaluationError:
            return False
        return True

    return check


def _of(kind: type, name: str, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        if not isinstance(value, kind):
            raise no_overload(name)
        return read(value)

    return call


def _contains_ip(value: Any, other: Any) -> bool:
    inner = other if isinstance(other, Ip) else _ip(other)
    if not isinstance(value, Cidr):
        raise no_overload("containsIP")
    return inner.address in value.network


def _contains_cidr(value: Any, other: Any) -> bool:
    inner = other if isinstance(other, Cidr) else _cidr(other)
    if not isinstance(value, Cidr):
        raise no_overload("containsCIDR")
    mine, theirs = value.network, inner.network
    if mine.version != theirs.version:
        return False
    return theirs.network_address in mine and theirs.prefixlen >= mine.prefixlen


def _is_global(value: Ip) -> bool:
    address = value.address
    plain = address.is_multicast or address.is_loopback or address.is_link_local or address.is_unspecified
    return not plain and str(address) != "255.255.255.255"


MAKERS: dict[str, Callable[[Any], Any]] = {
    "url": _url,
    "isURL": _parses(_url),
    "ip": _ip,
    "isIP": _parses(_ip),
    "cidr": _cidr,
    "isCIDR": _parses(_cidr),
}
METHODS: dict[str, Callable[[Any], Any]] = {
    name: _of(kind, name, read)
    for name, (kind, read) in {
        "getScheme": (Url, lambda value: value.parts.scheme),
        "getHost": (Url, lambda value: value.parts.netloc.rpartition("@")[2]),
        "getHostname": (Url, lambda value: value.parts.hostname or ""),
        "getPort": (Url, lambda value: str(value.parts.port or "")),
        "getEscapedPath": (Url, lambda value: value.parts.path),
        "getQuery": (Url, lambda value: parse_qs(value.parts.query, keep_blank_values=True)),
        "family": (Ip, lambda value: value.address.version),
        "isUnspecified": (Ip, lambda value: value.address.is_unspecified),
        "isLoopback": (Ip, lambda value: value.address.is_loopback),
        "isLinkLocalMulticast": (Ip, lambda value: value.address.is_multicast and value.address.is_link_local),
        "isLinkLocalUnicast": (Ip, lambda value: value.address.is_link_local),
        "isGlobalUnicast": (Ip, _is_global),
        "prefixLength": (Cidr, lambda value: value.network.prefixlen),
        "masked": (Cidr, lambda value: Cidr(value.network, value.network.network_address)),
    }.items()
}
TWO: dict[str, Callable[[Any, Any], Any]] = {"containsIP": _contains_ip, "containsCIDR": _contains_cidr}
