"""Queues as the SDK and ``unisono queue`` show them: what they may use, and how many PodGroups are in which phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kinds import POD_GROUPS
from unisono.api.membership import queue_of
from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.kube.client import Client

PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue.

    Attributes:
        name: of the queue.
        parent: the queue above it; ``root`` at the top.
        state: ``Open``, ``Closed``, ``Closing`` or ``Unknown``.
        weight: share among its siblings.
        groups: number of its PodGroups by phase: Inqueue, Pending, Running, Unknown, Completed; empty where the user
            may not list them.
        capability, deserved, guarantee, allocated: quantities by resource name.

    """

    name: str
    parent: str = "root"
    state: str = "Unknown"
    weight: int = 1
    groups: dict[str, int] = field(default_factory=dict)
    capability: dict[str, str] = field(default_factory=dict)
    deserved: dict[str, str] = field(default_factory=dict)
    guarantee: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)


async def all_groups(client: Client) -> list[PodGroup] | None:
    """All PodGroups, to be counted; None for a user who may not list them, such as one of a single namespace."""
    try:
        return (await client.list(POD_GROUPS)).items
    except ApiError as error:
        if error.code != 403:
            raise
        return None


def queue_views(queues: Iterable[Queue], groups: Iterable[PodGroup] | None) -> list[QueueView]:
    """Views of queues, by name. PodGroups are counted: the counters in a queue's status are not written any more.

    None for groups that the user may not list.
    """
    counts: dict[str, Counter[str]] = {}
    for group in groups or ():
        counts.setdefault(queue_of(group), Counter())[group.status.phase or "Pending"] += 1
    return [
        _view(queue, None if groups is None else counts.get(queue.metadata.name, Counter()))
        for queue in sorted(queues, key=lambda queue: queue.metadata.name)
    ]


def _view(queue: Queue, counts: Counter[str] | None) -> QueueView:
    name, spec = queue.metadata.name, queue.spec
    return QueueView(
        name,
        parent=spec.parent or ("" if name == "root" else "root"),
        state=queue.status.state or "Unknown",
        weight=spec.weight if spec.weight is not None else 1,
        groups={} if counts is None else {phase: counts[phase] for phase in PHASES},
        capability=_amounts(spec.capability),
        deserved=_amounts(spec.deserved),
        guarantee=_amounts(spec.guarantee.resource if spec.guarantee else None),
        allocated=_amounts(queue.status.allocated),
    )


def _amounts(amounts: dict[str, str | int | float] | None) -> dict[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}
