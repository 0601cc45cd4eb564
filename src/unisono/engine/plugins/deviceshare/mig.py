"""Cards that are cut into instances of fixed sizes (NVIDIA MIG): which instance a request gets.

A geometry lists the ways to cut a card, as groups of instances; a card follows one group as long as anything of it is
in use. Positions count through a group's instances as they are listed: in ``2g x 3, 1g x 1`` the last position is 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

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
