"""The closed queue that has to be opened: a parent closes the queues below it, and opens them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.api.kinds import QUEUES
from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.api.scheduling import Queue
    from unisono.kube.http import HttpClient

_SHUT = ("Closed", "Closing")
_MOST_LEVELS = 16


async def closed_above(client: HttpClient, name: str) -> tuple[str, str]:
    """Name and UID of the uppermost closed queue of the chain that begins with the closed queue ``name``.

    The UID is empty where the queue does not exist or may not be read.
    """
    queue = await _read(client, name)
    found = name, queue.metadata.uid or "" if queue is not None else ""
    for _ in range(_MOST_LEVELS):
        queue = await _read(client, queue.spec.parent) if queue is not None and queue.spec.parent else None
        if queue is None or queue.status.state not in _SHUT:
            break
        found = queue.metadata.name, queue.metadata.uid or ""
    return found


async def _read(client: HttpClient, name: str) -> Queue | None:
    try:
        return await client.get(QUEUES, name)
    except ApiError:
        return None
