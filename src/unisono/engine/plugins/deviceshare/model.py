"""Cards, what pods ask of them, and what a family of resource names must be able to say.

A *family* is one way of writing "a part of a card": ``volcano.sh/vgpu-*``, ``aliyun.com/gpu-mem``, ... Amounts are
whole numbers in the family's own unit (MiB, GiB, thousandths of a card); cores are percent of a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from unisono.api.core import ResourceRequirements
from unisono.api.resources import resource_list
from unisono.cluster.nodes import NodeFacts
from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.engine.answers import Reason

# Cards that are cut into instances of fixed sizes (NVIDIA MIG): which instance a request gets.
#
# A geometry lists the ways to cut a card, as groups of instances; a card follows one group as long as anything of it is
# in use. Positions count through a group's instances as they are listed: in ``2g x 3, 1g x 1`` the last position is 3.

Slot = tuple[int, int]
"""(group, position in the group)."""


@dataclass(frozen=True, slots=True)
class Instances:
    """``count`` instances of one profile; memory in MiB each."""

    name: str
    memory: int
    count: int


Geometry = tuple[tuple[Instances, ...], ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The geometry of all cards whose product name contains one of ``names``."""

    names: tuple[str, ...]
    geometry: Geometry


def _cut(*groups: str) -> Geometry:
    """``"1g.5gb 5120 x7"`` and the like, instances of a group joined by ``+``."""
    cut = []
    for group in groups:
        words = [part.split() for part in group.split("+")]
        cut.append(tuple(Instances(name, int(memory), int(count[1:])) for name, memory, count in words))
    return tuple(cut)


KNOWN: tuple[Model, ...] = (
    Model(("A30",), _cut("1g.6gb 6144 x4", "2g.12gb 12288 x2", "4g.24gb 24576 x1")),
    Model(
        ("A100-SXM4-40GB", "A100-40GB-PCIe", "A100-PCIE-40GB"),
        _cut("1g.5gb 5120 x7", "2g.10gb 10240 x3 + 1g.5gb 5120 x1", "3g.20gb 20480 x2", "7g.40gb 40960 x1"),
    ),
    Model(
        ("A100-SXM4-80GB", "A100-80GB-PCIe", "A100-PCIE-80GB", "H100-80GB", "H100-PCIE", "H100 80GB", "H800"),
        _cut("1g.10gb 10240 x7", "2g.20gb 20480 x3 + 1g.10gb 10240 x1", "3g.40gb 40960 x2", "7g.80gb 81920 x1"),
    ),
)
"""NVIDIA's profiles; equal sizes only in one group, as device plugins cut cards."""


def geometry_of(model: str, known: Sequence[Model] = KNOWN) -> Geometry | None:
    """How a card of a model is cut; None when the model is unknown."""
    return next((one.geometry for one in known if any(name in model for name in one.names)), None)


def read_models(given: Iterable[Mapping[str, Any]]) -> tuple[Model, ...]:
    """Geometries as device plugins list them.

    Args:
        given: a list of ``{"models": [...], "allowedGeometries": [{"geometries": [{"name", "memory", "count"}]}]}``.

    Raises:
        ValueError: an entry is not of that form; the message says which.
    """
    models = []
    for number, entry in enumerate(given):
        try:
            groups = tuple(
                tuple(Instances(str(one["name"]), int(one["memory"]), int(one["count"])) for one in group["geometries"])
                for group in entry["allowedGeometries"]
            )
            models.append(Model(tuple(str(name) for name in entry["models"]), groups))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"entry {number} of the known geometries cannot be read: {error!r}") from error
    return tuple(models)


def place(geometry: Geometry, taken: Set[Slot], memory: int) -> tuple[Slot, int] | None:
    """The smallest free instance with at least ``memory`` MiB, and its memory; None when there is none.

    A card in use keeps its group; an idle one takes the first group that has such an instance.
    """
    for group in sorted({slot[0] for slot in taken}) or range(len(geometry)):
        offset, best = 0, None
        for instances in geometry[group]:
            free = next((p for p in range(offset, offset + instances.count) if (group, p) not in taken), None)
            offset += instances.count
            if free is not None and instances.memory >= memory and (best is None or instances.memory < best[1]):
                best = ((group, free), instances.memory)
        if best is not None:
            return best
    return None


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
