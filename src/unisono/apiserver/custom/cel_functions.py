"""Functions that Kubernetes adds to CEL; those of a value take it as their first argument."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

from unisono.api.patterns import compile_pattern
from unisono.api.quantity import QuantityError, parse_quantity

# What the engine has itself, macros and conversions included.
KNOWN = frozenset(
    (
        "all",
        "bool",
        "bytes",
        "contains",
        "double",
        "duration",
        "dyn",
        "endsWith",
        "exists",
        "exists_one",
        "filter",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
        "has",
        "hasValue",
        "int",
        "map",
        "matches",
        "none",
        "of",
        "orValue",
        "size",
        "startsWith",
        "string",
        "timestamp",
        "type",
        "uint",
        "value",
    )
)
_QUANTITY, _URL, _IP = "__quantity__", "__url__", "__ip__"


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        return list(text) if most < 0 else [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _index_of(value: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(value, str):
        return value.find(wanted, start)
    return next((index for index, each in enumerate(value) if each == wanted), -1)


def _last_index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, str):
        return value.rfind(wanted)
    return next((index for index in range(len(value) - 1, -1, -1) if value[index] == wanted), -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise IndexError(f"index out of range: {start}")
    return text[start:end]


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise IndexError(f"index out of range: {index}")
    return text[index : index + 1]


def _find(text: str, pattern: str) -> str:
    return next(compile_pattern(pattern).all_in(text), "")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    return list(islice(compile_pattern(pattern).all_in(text), most if most >= 0 else None))


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _quantity(text: str) -> dict[str, str]:
    parse_quantity(text)
    return {_QUANTITY: text}


def _amount(value: Any) -> Fraction:
    return Fraction(parse_quantity(value[_QUANTITY] if isinstance(value, dict) else value))


def _is_quantity(text: Any) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


def _compare(left: Any, right: Any) -> int:
    difference = _amount(left) - _amount(right)
    return (difference > 0) - (difference < 0)


def _sign(value: Any) -> int:
    return _compare(value, 0)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool((parts.scheme and (parts.netloc or parts.path)) or text.startswith("/"))


def _url(text: str) -> dict[str, str]:
    if not _is_url(text):
        raise ValueError(f"URL parse error during conversion from string: {text}")
    return {_URL: text}


def _of_url(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: read(urlsplit(value[_URL]))


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _ip(text: str) -> dict[str, str]:
    return {_IP: str(ipaddress.ip_address(text))}


def _family(value: Any) -> int:
    return ipaddress.ip_address(value[_IP]).version


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "split": _split,
    "join": lambda values, separator="": separator.join(values),
    "replace": _replace,
    "lowerAscii": lambda text: re.sub("[A-Z]", lambda found: found.group().lower(), text),
    "upperAscii": lambda text: re.sub("[a-z]", lambda found: found.group().upper(), text),
    "trim": lambda text: text.strip(),
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "substring": _substring,
    "charAt": _char_at,
    "find": _find,
    "findAll": _find_all,
    "sum": sum,
    "min": min,
    "max": max,
    "isSorted": _is_sorted,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "compareTo": _compare,
    "isGreaterThan": lambda left, right: _compare(left, right) > 0,
    "isLessThan": lambda left, right: _compare(left, right) < 0,
    "sign": _sign,
    "asApproximateFloat": lambda value: float(_amount(value)),
    "isInteger": lambda value: _amount(value).denominator == 1,
    "asInteger": lambda value: int(_amount(value)),
    "isURL": _is_url,
    "url": _url,
    "getScheme": _of_url(lambda parts: parts.scheme),
    "getHost": _of_url(lambda parts: parts.netloc.rpartition("@")[2]),
    "getHostname": _of_url(lambda parts: parts.hostname or ""),
    "getPort": _of_url(lambda parts: str(parts.port or "")),
    "getEscapedPath": _of_url(lambda parts: parts.path),
    "getQuery": _of_url(lambda parts: parse_qs(parts.query, keep_blank_values=True)),
    "isIP": _is_ip,
    "ip": _ip,
    "family": _family,
    "isCIDR": _is_cidr,
}
