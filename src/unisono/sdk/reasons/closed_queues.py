"""The closed queues that have to be opened: a parent closes those below it, and opens what it closed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.api.keys import CLOSED_BY_PARENT
from unisono.api.kinds import QUEUES
from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.api.groups.scheduling import Queue
    from unisono.kube.http import HttpClient

_SHUT = ("Closed", "Closing")
_MOST_LEVELS = 16


@dataclass(frozen=True, slots=True)
class ClosedQueues:
    """The closed queues of one chain.

    Attributes:
        above: the uppermost.
        by_hand: those below it that stay closed when it opens, because they were closed by themselves; upwards.

    """

    above: str
    by_hand: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All that have to be opened, the uppermost first."""
        return (self.above, *reversed(self.by_hand))


async def closed_queues(client: HttpClient, name: str) -> ClosedQueues:
    """Of the chain that begins with the closed queue ``name``; those above one that may not be read are not known."""
    found, by_hand = name, list[str]()
    queue = await _read(client, name)
    for _ in range(_MOST_LEVELS):
        above = await _read(client, queue.spec.parent) if queue is not None and queue.spec.parent else None
        if queue is None or above is None or above.status.state not in _SHUT:
            break
        if (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT) != "true":
            by_hand.append(found)
        found, queue = above.metadata.name, above
    return ClosedQueues(found, tuple(by_hand))


async def _read(client: HttpClient, name: str) -> Queue | None:
    try:
        return await client.get(QUEUES, name)
    except ApiError:
        return None
