"""Names, labels and keys, in Kubernetes' words."""

# ruff: noqa: E501 - a case and its message stand on one line, so that both can be searched for

from collections.abc import Callable

import pytest

from unisono.api import names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("check", "value", "problems"),
    [
        (names.dns_label, "a-1", []),
        (names.dns_label, "1a", []),
        (names.dns_label, "A", [LABEL]),
        (names.dns_label, "a.b", [LABEL]),
        (names.dns_label, "a\n", [LABEL]),
        (names.dns_label, "a" * 64, ["must be no more than 63 bytes"]),
        (names.dns_subdomain, "a.b-c.1", []),
        (names.dns_subdomain, "a..b", [SUBDOMAIN]),
        (names.dns_subdomain, "ü", [SUBDOMAIN]),
        (names.dns_subdomain, "-" + "a" * 253, ["must be no more than 253 bytes", SUBDOMAIN]),
        (names.qualified_name, "app", []),
        (names.qualified_name, "nvidia.com/gpu", []),
        (names.qualified_name, "My_Name.1", []),
        (names.qualified_name, "/a", ["prefix part must be non-empty"]),
        (names.label_value, "", []),
        (names.label_value, "v1.0_x", []),
        (names.env_name, "A.b-c 1", []),
        (names.port_name, "http-1", []),
        (names.port_name, "1", ["must contain at least one letter (a-z)"]),
        (names.port_name, "a--b", ["must not contain consecutive hyphens"]),
        (names.port_name, "a-", ["must not begin or end with a hyphen"]),
        (names.port_name, "a" * 16, ["must be no more than 15 characters"]),
        (names.config_key, "a.B_c-1", []),
        (names.config_key, "..", ["must not be '..'"]),
        (names.config_key, "..a", ["must not start with '..'"]),
        (names.ip_address, "::1", []),
        (names.ip_address, "1.2.3", ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
    ],
)
def test_names(check: Callable[[str], list[str]], value: str, problems: list[str]) -> None:
    assert check(value) == problems


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (names.dns_1035_label, "1a"),
        (names.qualified_name, "a/b/c"),
        (names.qualified_name, "a/"),
        (names.qualified_name, "UPPER.com/x"),
        (names.qualified_name, "a/" + "b" * 64),
        (names.qualified_name, "a b"),
        (names.label_value, "-a"),
        (names.label_value, "a" * 64),
        (names.env_name, ""),
        (names.env_name, "A=B"),
        (names.port_name, "Http"),
        (names.config_key, "a/b"),
        (names.config_key, ""),
    ],
)
def test_refused(check: Callable[[str], list[str]], value: str) -> None:
    assert check(value)


@pytest.mark.parametrize(("port", "ok"), [(0, False), (1, True), (65535, True), (65536, False), (-1, False)])
def test_port_numbers(port: int, ok: bool) -> None:
    assert (names.port_number(port) == []) is ok
