"""Kinds of nodes of which a gang takes one: how objects name them, and in which order they are tried (pure).

``gpu.example.com/type=h100, gpu.example.com/type=a100@0.5`` means nodes with the first label, else nodes with the
second, on which the work goes half as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from unisono.api.annotations import ONE_OF, ONE_OF_BY
from unisono.api.names import label_value, qualified_name

MOST: Final = 8
"""Kinds of nodes that one list may have; each may cost as much as a job of its own in a cycle."""

ORDER, PRICE, SPEED = "order", "price", "speed"
WAYS: Final = (ORDER, PRICE, SPEED)
"""By what the kinds are tried: as they stand there, the cheapest for the same work first, the fastest first."""

_FASTEST: Final = 1_000_000.0
_FORM = "write LABEL=VALUE, separated by commas, the best first, such as example.com/gpu=h100, example.com/gpu=a100"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """One of the kinds.

    Attributes:
        labels: that its nodes have, all of them.
        speed: how fast the work goes there, compared with the others.

    """

    labels: tuple[tuple[str, str], ...]
    speed: float = 1.0

    @property
    def name(self) -> str:
        """``LABEL=VALUE``, several joined by ``+``; what pods are told."""
        return "+".join(f"{key}={value}" for key, value in self.labels)


def kinds_of(text: str) -> tuple[NodeKind, ...]:
    """The kinds that a list names, as they stand there; none of an empty one.

    Raises:
        ValueError: it has another form, more than `MOST` kinds, or one twice; the text says what to write.

    """
    found: dict[tuple[tuple[str, str], ...], NodeKind] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        kind = _kind_of(part)
        key = tuple(sorted(kind.labels))
        if key in found:
            raise ValueError(f"{kind.name} stands there twice: {_FORM}")
        found[key] = kind
    if len(found) > MOST:
        raise ValueError(f"{len(found)} kinds of nodes are too many, {MOST} at most")
    return tuple(found.values())


def _kind_of(part: str) -> NodeKind:
    if "*" in part:
        raise ValueError(
            f"{part!r} asks for another amount on one kind of nodes, which pods cannot do once they are made: "
            "all kinds give a pod what it requests; leave the * out, or submit a job for each"
        )
    names, mark, number = (each.strip() for each in part.partition("@"))
    labels: dict[str, str] = {}
    for each in names.split("+"):
        key, equals, value = (one.strip() for one in each.partition("="))
        if not equals or not value or qualified_name(key) or label_value(value):
            raise ValueError(f"{each.strip()!r} is no label of nodes: {_FORM}")
        if key in labels:
            raise ValueError(f"{part!r} names label {key} twice")
        labels[key] = value
    return NodeKind(tuple(labels.items()), _speed_of(part, number) if mark else 1.0)


def _speed_of(part: str, number: str) -> float:
    try:
        speed = float(number) if number.isascii() else 0.0
    except ValueError:
        speed = 0.0
    if not 1 / _FASTEST <= speed <= _FASTEST:
        raise ValueError(f"{part!r} must have a number above 0 behind the @: how fast the work goes there, such as 0.5")
    return speed


def way_of(text: str) -> str:
    """By what kinds are tried.

    Raises:
        ValueError: it is none of `WAYS`.

    """
    way = text.strip().lower() or ORDER
    if way not in WAYS:
        raise ValueError(f"{text!r} must be one of {', '.join(WAYS)}")
    return way


@dataclass(frozen=True, slots=True)
class OneOf:
    """What a pod, or a whole gang, says of it.

    Attributes:
        text: the list as it stands there: pods with the same one have the same kind.
        kinds: as they stand there, two or more.
        way: one of `WAYS`.

    """

    text: str
    kinds: tuple[NodeKind, ...]
    way: str


@lru_cache(maxsize=1024)
def _read(text: str, way: str) -> OneOf | None:
    try:
        kinds = kinds_of(text)
        return OneOf(text, kinds, way_of(way)) if kinds else None
    except ValueError:
        return None


def one_of(notes: Mapping[str, str], of_gang: Mapping[str, str]) -> OneOf | None:
    """What annotations of a pod say, else those of its PodGroup; None: nothing that can be read, as admission says."""
    for each in (notes, of_gang):
        if text := each.get(ONE_OF):
            return _read(text, each.get(ONE_OF_BY, ""))
    return None
