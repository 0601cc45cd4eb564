"""The history of a cluster whose API server keeps none, from a database; a viewer sees rows of what they may list."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from unisono.api.kinds import NODES, QUEUES
from unisono.dashboard.live.rights import may_list
from unisono.errors import Unavailable

if TYPE_CHECKING:
    from unisono.dashboard.live.world import World
    from unisono.history.reading import Place
    from unisono.history.source import StoredHistory


class Past:
    """Answers questions about the past.

    Args:
        source: the database.

    """

    def __init__(self, source: StoredHistory) -> None:
        self._source = source
        # The source answers one question after the other: of each user one waits there, the others wait here.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, world: World, what: str, query: Mapping[str, str]) -> bytes | None:
        """The answer as JSON; None where there is no such question.

        Raises:
            ApiError: the question cannot be read, it is not for this viewer, or nothing can be said now.

        """
        if not await world.scoped():
            raise Unavailable("it is not known yet what you may see: try again")
        turn = self._turns.setdefault(world.user, asyncio.Lock())
        async with turn:
            shown = await self._shown(world, await self._source.places())
            return await self._source.answer(
                what, query, shown, capacity=world.sees_all(NODES), queues=world.sees_all(QUEUES)
            )

    @staticmethod
    async def _shown(world: World, places: Sequence[Place]) -> Collection[Place]:
        """Places that the viewer may list now: the rights that the world has asked for, and those of other kinds."""
        others: dict[str, Collection[str | None]] = {}
        for resource in {resource for _, resource in places}:
            scope = world.scope(resource)
            others[resource] = await may_list(world.client, resource, world.namespaces) if scope is None else scope
        return [
            (namespace, resource)
            for namespace, resource in places
            if None in others[resource] or namespace in others[resource]
        ]
