"""Kinds of nodes of which a gang takes one: how objects name them, and in which order they are tried (pure).

``gpu.example.com/type=h100, gpu.example.com/type=a100*2@0.6`` means nodes with the first label, else nodes with the
second, of which each pod takes twice as many devices, and on which the work goes 0.6 times as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from msgspec import structs

from unisono.api.annotations import ONE_OF, ONE_OF_BY
from unisono.api.base import Quantity, ResourceList
from unisono.api.core import Container, PodSpec, ResourceRequirements
from unisono.api.licenses import PREFIX
from unisono.api.names import label_value, qualified_name
from unisono.api.quantity import QuantityError, to_int

MOST: Final = 8
"""Kinds of nodes that one list may have; each may cost as much as a job of its own in a cycle."""

MOST_TIMES: Final = 64
"""Devices of one kind of nodes that stand for one of another at most."""

LONGEST: Final = 2048
"""Characters that one kind of nodes takes in a list at most."""

ORDER, PRICE, SPEED = "order", "price", "speed"
WAYS: Final = (ORDER, PRICE, SPEED)
"""By what the kinds are tried: as they stand there, the cheapest for the same work first, the fastest first."""

_TIMES: Final = frozenset(map(str, range(1, MOST_TIMES + 1)))
_FASTEST: Final = 1_000_000.0
_FORM = "write LABEL=VALUE, separated by commas, the best first, such as example.com/gpu=h100, example.com/gpu=a100"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """One of the kinds.

    Attributes:
        labels: that its nodes have, all of them.
        speed: how fast the work goes there, compared with the others.
        times: how many times as many devices a pod takes there as its template says.
    """

    labels: tuple[tuple[str, str], ...]
    speed: float = 1.0
    times: int = 1

    @property
    def name(self) -> str:
        """``LABEL=VALUE``, several joined by ``+``, with the times if that is not 1; what pods are told."""
        labels = "+".join(f"{key}={value}" for key, value in self.labels)
        return labels if self.times == 1 else f"{labels}*{self.times}"


def kinds_of(text: str) -> tuple[NodeKind, ...]:
    """The kinds that a list names, as they stand there; none of an empty one.

    Raises:
        ValueError: it has another form, more than `MOST` kinds, too long ones, or one twice; the text says what to
            write.
    """
    if len(text) > MOST * LONGEST:
        raise ValueError(f"{len(text)} characters are too many, {MOST * LONGEST} at most")
    kinds: dict[tuple[tuple[str, str], ...], NodeKind] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        kind = _kind_of(part)
        key = tuple(sorted(kind.labels))
        if key in kinds:
            raise ValueError(f"{kind.name} stands there twice: {_FORM}")
        kinds[key] = kind
    if text.strip() and not kinds:
        raise ValueError(f"{text!r} names no kind of nodes: {_FORM}")
    if len(kinds) > MOST:
        raise ValueError(f"{len(kinds)} kinds of nodes are too many, {MOST} at most")
    return tuple(kinds.values())


def _kind_of(part: str) -> NodeKind:
    if len(part) > LONGEST:
        raise ValueError(f"{part[:40]}... has {len(part)} characters, {LONGEST} at most")
    rest, mark, number = (each.strip() for each in part.partition("@"))
    names, star, times = (each.strip() for each in rest.partition("*"))
    if "*" in number:
        speed, _, factor = (each.strip() for each in number.partition("*"))
        raise ValueError(f"{part!r} must have the * before the @: write {names}*{factor}{speed and f'@{speed}'}")
    if star and times not in _TIMES:
        raise ValueError(
            f"{part!r} must have a whole number from 1 to {MOST_TIMES} behind the *: how many times as many "
            "devices a pod takes there"
        )
    labels: dict[str, str] = {}
    for each in names.split("+"):
        key, equals, value = (one.strip() for one in each.partition("="))
        if not equals or not value or qualified_name(key) or label_value(value):
            raise ValueError(f"{each.strip()!r} is no label of nodes: {_FORM}")
        if key in labels:
            raise ValueError(f"{part!r} names label {key} twice")
        labels[key] = value
    return NodeKind(tuple(labels.items()), _speed_of(part, number) if mark else 1.0, int(times) if star else 1)


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
        kinds: as they stand there, one or more.
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
            return _read(text, notes.get(ONE_OF_BY) or of_gang.get(ONE_OF_BY, ""))
    return None


def kind_told(got: str) -> NodeKind | None:
    """The kind that a pod was told, also where its list has been edited since; None of any other text."""
    return _told(got) if 0 < len(got) <= LONGEST else None


@lru_cache(maxsize=1024)
def _told(got: str) -> NodeKind | None:
    try:
        kinds = kinds_of(got)
    except ValueError:
        return None
    return kinds[0] if len(kinds) == 1 and kinds[0].name == got else None


def times_of(got: str) -> int:
    """How many times as many devices pods ask for that were made for the kind that they were told."""
    kind = kind_told(got)
    return 1 if kind is None else kind.times


def scaled(spec: PodSpec, times: int, before: int = 1) -> PodSpec:
    """A pod that asks for ``times`` as many devices as its template says; ``before``: as it asks for now."""
    if times == before:
        return spec

    def of(containers: list[Container] | None) -> list[Container] | None:
        return containers and [
            structs.replace(one, resources=_scaled(one.resources, times, before)) for one in containers
        ]

    return structs.replace(spec, containers=of(spec.containers), init_containers=of(spec.init_containers))


def _scaled(given: ResourceRequirements, times: int, before: int) -> ResourceRequirements:
    return structs.replace(
        given, requests=_multiples(given.requests, times, before), limits=_multiples(given.limits, times, before)
    )


def _multiples(amounts: ResourceList | None, times: int, before: int) -> ResourceList | None:
    return amounts and {
        name: _multiple(amount, times, before) if _is_device(name) else amount for name, amount in amounts.items()
    }


def multiplied_in_vain(job: Mapping[str, str], template: Mapping[str, str], spec: PodSpec) -> str:
    """The first kind of a list on which pods would take more devices, were there any in their spec; empty: none.

    Args:
        job: annotations of the job, whose list comes first.
        template: of the pods' template.
        spec: of its pods.
    """
    said = one_of(job, template)
    more = [kind for kind in said.kinds if kind.times != 1] if said is not None else []
    return more[0].name if more and scaled(spec, more[0].times) == spec else ""


def _is_device(name: str) -> bool:
    """Whether a resource is one of those that device plug-ins offer."""
    return "/" in name and not name.startswith(PREFIX)


def _multiple(amount: Quantity, times: int, before: int) -> Quantity:
    try:
        return str(to_int(amount) * times // before)
    except QuantityError:
        return amount
