"""URLs, IP addresses and networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from unisono.api.cel.errors import EvaluationError, no_overload
from unisono.api.cel.texts import text

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
