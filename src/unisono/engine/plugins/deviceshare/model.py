"""Cards, what pods ask of them, and what a family of resource names must be able to say.

A *family* is one way of writing "a part of a card": ``volcano.sh/vgpu-*``, ``aliyun.com/gpu-mem``, ... Amounts are
whole numbers in the family's own unit (MiB, GiB, thousandths of a card); cores are percent of a card.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from unisono.api.core import ResourceRequirements
from unisono.api.resources import resource_list
from unisono.cluster.nodes import NodeFacts
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import Reason
from unisono.engine.plugins.deviceshare.mig import Geometry, Slot

FULL_CORES = 100
UNSHARED_LIMIT = 1 << 20
"""Pods per card where a family sets no limit."""


class Order(Enum):
    """In which order cards of a node are tried."""

    FIRST = "first"
    """Lowest index first."""
    LAST = "last"
    """Highest index first."""
    BEST_FIT = "best-fit"
    """Least free memory first, then lowest index."""
    BINPACK = "binpack"
    """Most used memory first, then lowest index."""
    SPREAD = "spread"
    """Fewest pods first, then lowest index."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one container (or the whole pod, where a family counts so) asks for: ``count`` different cards.

    Attributes:
        count: cards.
        memory: of each card; 0 with ``percent`` set.
        percent: of each card's memory, rounded down; 0 when ``memory`` counts.
        cores: percent of each card.
        whole: only cards without pods, and no other pod may use them then.

    """

    count: int = 1
    memory: int = 0
    percent: int = 0
    cores: int = 0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Card:
    """One card of a node.

    Attributes:
        uuid: its name; ``""`` where only its index is known.
        memory: total.
        slots: how many pods may share it.
        model: product name.
        usable: it is healthy.

    """

    uuid: str
    memory: int
    slots: int = UNSHARED_LIMIT
    model: str = ""
    usable: bool = True


@dataclass(frozen=True, slots=True)
class NodeCards:
    """The cards of one node.

    Attributes:
        mode: how they are shared, where a family has several ways.
        geometries: per card how it is cut into instances (None: it is not); empty where no card is.

    """

    cards: tuple[Card, ...]
    mode: str = ""
    geometries: tuple[Geometry | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    """A pod's share of one card; ``slot`` is the instance's place in a partitioned card, ``(group, position)``."""

    card: int
    memory: int
    cores: int = 0
    whole: bool = False
    slot: Slot | None = None


Holds = tuple[tuple[Hold, ...], ...]
"""Shares by part, in the order of the demand's parts."""


class Family(Protocol):
    """One family of resource names.

    Attributes:
        name: for messages.
        order: of cards, when no policy is configured.
        short: why a node whose cards are too full is refused.
        offered: resource that every node with such cards offers.
        resource: asks for memory of a card, or for whole cards where that is all that can be asked for.

    """

    name: str
    resource: str
    order: Order
    short: Reason
    offered: str

    def cards(self, facts: NodeFacts) -> NodeCards | None:
        """The node's cards; None when it has none of this family."""
        ...

    def parts(self, pod_class: PodClass) -> tuple[Part, ...]:
        """What pods of a class ask for; empty when they ask nothing of this family."""
        ...

    def allows(self, pod_class: PodClass, cards: NodeCards) -> Sequence[bool] | None:
        """Which cards the pod's annotations permit; None: all."""
        ...

    def held(self, task: Task, cards: NodeCards) -> Holds | None:
        """What the annotations of a pod on the node say that it holds; None when they say nothing."""
        ...

    def annotations(self, task: Task, node: str, cards: NodeCards, holds: Holds, now: float) -> Mapping[str, str]:
        """What the pod is told with its bind; `held` reads it back."""
        ...


def amounts(resources: ResourceRequirements | None) -> dict[str, int]:
    """Whole amounts of extended resources of a container; limits count before requests."""
    if resources is None:
        return {}
    merged = {**resource_list(resources.requests), **resource_list(resources.limits)}
    return {name: amount // 1000 for name, amount in merged.items() if "/" in name}


def asks(pod_class: PodClass, names: frozenset[str]) -> bool:
    """Whether pods of the class request any of ``names``."""
    return not names.isdisjoint(pod_class.requests)


def whole(facts: NodeFacts, name: str) -> int:
    """Whole units of an extended resource that a node has."""
    return facts.allocatable.get(name, 0) // 1000


def indices(text: str | None, separator: str = ",") -> list[int] | None:
    """Card numbers such as ``0,2``; None when that is not what the text is."""
    parts = (text or "").split(separator)
    return [int(part) for part in parts] if all(part.strip().isdigit() for part in parts) else None
