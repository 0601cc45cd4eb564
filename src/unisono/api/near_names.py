"""The name that a user probably meant, among those that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

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
