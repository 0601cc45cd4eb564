"""The ``format`` of strings: those that Kubernetes checks; every other name says nothing."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from unisono.api import names

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
    found = _TIME.fullmatch(rest)
    if not separator or not _date(day) or found is None:
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


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
    found = re.fullmatch(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", text, re.ASCII)
    return found is not None and all(int(part) <= 255 for part in found.groups())


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
