"""Syntax of names, labels and keys; every check answers what is wrong, in Kubernetes' words (empty when nothing is).

Source of patterns and texts: ``k8s.io/apimachinery/pkg/util/validation``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_ALNUM = "must consist of lower case alphanumeric characters"
_LABEL_TEXT = (
    f"a lowercase RFC 1123 label {_ALNUM} or '-', and must start and end with an alphanumeric character "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    f"a lowercase RFC 1123 subdomain {_ALNUM}, '-' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_DNS1035_TEXT = (
    f"a DNS-1035 label {_ALNUM} or '-', start with an alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS1035}')"
)
_QUALIFIED_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_LABEL_VALUE}')"
)
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)


def _check(pattern: str, text: str, longest: int) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def check(value: str) -> list[str]:
        problems = [] if len(value.encode(errors="replace")) <= longest else [f"must be no more than {longest} bytes"]
        if not compiled.fullmatch(value):
            problems.append(text)
        return problems

    return check


dns_label = _check(_LABEL, _LABEL_TEXT, 63)
dns_subdomain = _check(_SUBDOMAIN, _SUBDOMAIN_TEXT, 253)
dns_1035_label = _check(_DNS1035, _DNS1035_TEXT, 63)
label_value = _check(_LABEL_VALUE, _LABEL_VALUE_TEXT, 63)
_name_part = _check(_QUALIFIED, f"name part {_QUALIFIED_TEXT}", 63)
_config_key = _check(_CONFIG_KEY, _CONFIG_KEY_TEXT, 253)


def path_segment(value: str) -> list[str]:
    """A name that is one segment of a URL, such as ``system:discovery``."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in value]


def qualified_name(value: str) -> list[str]:
    """A label key, annotation key or resource name: an optional DNS prefix, "/", and a name."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [
            f"a qualified name {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if slash:
        if not prefix:
            problems.append("prefix part must be non-empty")
        problems += [f"prefix part {each}" for each in (dns_subdomain(prefix) if prefix else ())]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [each if each.startswith("name part") else f"name part {each}" for each in _name_part(name)]


def config_key(value: str) -> list[str]:
    """A key of a ConfigMap or Secret, which becomes a file name."""
    problems = _config_key(value)
    if value == ".":
        problems.append("must not be '.'")
    elif value == "..":
        problems.append("must not be '..'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def env_name(value: str) -> list[str]:
    """Name of an environment variable."""
    if re.fullmatch(r"[ -<>-~]+", value):
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def port_name(value: str) -> list[str]:
    """Name of a port (IANA service name)."""
    problems = ["must be no more than 15 characters"] if len(value) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def port_number(value: int) -> list[str]:
    """A TCP, UDP or SCTP port."""
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def ip_address(value: str) -> list[str]:
    """An IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []
