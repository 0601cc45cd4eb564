"""Syntax of names, labels and keys; every check answers what is wrong, in Kubernetes' words (empty when nothing is).

Source of patterns and texts: ``k8s.io/apimachinery/pkg/util/validation``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from itertools import islice

# The name that a user probably meant, among those that exist.

_MOST_KNOWN = 5_000
_LONGEST = 320
"""Longer than any name, label or ``namespace/name`` in Kubernetes."""
_SHORTEST = 3
_LONG, _LONG_WORD = 12, 7
"""From this length of a name, or of its only word that differs, on two edits still make a near miss."""
_OTHER_DOMAIN = 3
"""Farther than any edit."""
_STEM = 4
"""Shortest word that stands for a longer one with the same beginning: ``train`` for ``training``."""
_ALIKE = str.maketrans("01_.", "ol--")
_SEPARATORS = re.compile(r"[-/]")
_KINDS = frozenset(
    ("claim", "class", "gang", "group", "job", "pg", "podgroup", "pvc", "queue", "sc", "storageclass", "template")
)
"""Words in names that tell what kind of object it is."""
_NUMBERS = re.compile(r"\d+")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that ``name`` is a near miss of, ``""`` where none is near; at most 5,000 names are looked at.

    Near are names that differ in case, separators or look-alikes (``a100`` and ``A100``, ``m1`` and ``ml``), that have
    another prefix before ``/`` (``zone`` and ``topology.kubernetes.io/zone``, ``amd.com/gpu`` and ``nvidia.com/gpu``),
    that have the same parts in another order (``fast-ssd`` and ``ssd-fast``) or one more that only tells a kind
    (``ring-pg`` and ``ring``) or one word that begins the other (``train-data`` and ``training-data``), or that are one
    edit away (optimal string alignment distance). Two are near as well for
    names of 12 characters and more, and where a single word between separators differs that has 7 or more. Names that
    differ in their numbers are siblings.
    """
    if not name or len(name) > _LONGEST:
        return ""
    best: tuple[int, str] | None = None
    for other in islice(known, _MOST_KNOWN):
        if other and other != name and len(other) <= _LONGEST:
            distance = _distance(name, other)
            if distance is not None and (best is None or (distance, other) < best):
                best = distance, other
    return best[1] if best is not None else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` (did you mean x?)`` for the nearest known name, or nothing."""
    near = nearest(name, known)
    return f" (did you mean {near}?)" if near else ""


def _distance(name: str, other: str) -> int | None:
    """How near two names are, None where they are not."""
    one, two = (text.casefold().translate(_ALIKE) for text in (name, other))
    if one == two:
        return 0
    if min(len(one), len(two)) < _SHORTEST:
        return None
    if one.rpartition("/")[2] == two.rpartition("/")[2] and ("/" in one) != ("/" in two):
        return 1
    if _same_parts(one, two):
        return 1
    elsewhere = _OTHER_DOMAIN if _in_other_domain(name, other) or _begins(one, two) else None
    limit = 2 if min(len(one), len(two)) >= _LONG or _in_long_word(one, two) else 1
    if abs(len(one) - len(two)) > limit or one[0] != two[0] or _NUMBERS.findall(name) != _NUMBERS.findall(other):
        return elsewhere
    return next((edits for edits in range(1, limit + 1) if _within(one, two, edits)), elsewhere)


def _begins(one: str, two: str) -> bool:
    """Whether one word of several differs, and begins the other: ``train-data`` and ``training-data``."""
    words, others = _SEPARATORS.split(one), _SEPARATORS.split(two)
    differ = [sorted(pair, key=len) for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    if len(words) != len(others) or len(words) < 2 or len(differ) != 1:
        return False
    short, long = differ[0]
    return len(short) >= _STEM and long.startswith(short) and long.isalpha()


def _in_long_word(one: str, two: str) -> bool:
    """Whether the names differ in one long word only: ``prepair`` and ``prepare``, not ``team-ml`` and ``team-qa``."""
    words, others = _SEPARATORS.split(one), _SEPARATORS.split(two)
    if len(words) != len(others):
        return False
    differ = [(word, other) for word, other in zip(words, others, strict=True) if word != other]
    return len(differ) == 1 and min(map(len, differ[0])) >= _LONG_WORD and differ[0][0][0] == differ[0][1][0]


def _same_parts(one: str, other: str) -> bool:
    """Whether the parts between hyphens are the same, but for their order and words for kinds of objects."""
    parts, others = (sorted(text.split("-")) for text in (one, other))
    if parts == others:
        return len(parts) > 1
    plain = [[part for part in each if part not in _KINDS] for each in (parts, others)]
    return bool(plain[0]) and plain[0] == plain[1]


def _in_other_domain(name: str, other: str) -> bool:
    """``amd.com/gpu`` and ``nvidia.com/gpu``; not objects of two namespaces, whose names have no dots."""
    (domain, _, last), (known_domain, _, known_last) = name.rpartition("/"), other.rpartition("/")
    return bool(domain and known_domain) and "." in domain + known_domain and last == known_last


def _within(one: str, two: str, edits: int) -> bool:
    """Whether at most ``edits`` insertions, deletions, substitutions or swaps of neighbours make one of the other."""
    start = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    one, two = one[start:], two[start:]
    if not one or not two:
        return max(len(one), len(two)) <= edits
    if not edits:
        return False
    swapped = one[1:2] == two[0] and two[1:2] == one[0] and _within(one[2:], two[2:], edits - 1)
    return (
        swapped
        or _within(one[1:], two[1:], edits - 1)
        or _within(one[1:], two, edits - 1)
        or _within(one, two[1:], edits - 1)
    )


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
