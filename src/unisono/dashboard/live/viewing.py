"""Whose rows of the past are shown to whom: rights that a world has asked for, or asked for one question alone."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from unisono.api.annotations import tenant
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, QUEUES
from unisono.dashboard.live.configuration import EVERYWHERE, Scope, may, may_list, may_list_in
from unisono.errors import ApiError, Unavailable

if TYPE_CHECKING:
    from unisono.dashboard.live.world import World
    from unisono.history.reading import HistorySource, Place
    from unisono.kube.client import Client

_AT_ONCE = 16
MOST_PLACES = 1000
"""Namespaces and kinds that are asked for one by one, for one question."""


class Viewer(Protocol):
    """Who asks about the past.

    Attributes:
        user: name of the user.
    """

    user: str

    async def shown(self, places: Sequence[Place], namespace: str) -> Collection[Place]:
        """The places of which this viewer may see rows; of ``namespace`` alone, where it is not empty."""
        ...

    async def sees_all(self, kind: Kind[Any]) -> bool:
        """Whether the viewer may list all objects of a kind."""
        ...


class PageViewer:
    """A viewer with a page open: what the world has asked for is known."""

    def __init__(self, world: World) -> None:
        self._world, self.user = world, world.user

    async def shown(self, places: Sequence[Place], namespace: str) -> Collection[Place]:
        """Places in namespaces that the world looks into.

        Raises:
            Unavailable: the rights are not known yet.
        """
        world = self._world
        if not await world.scoped():
            raise Unavailable("it is not known yet what you may see: try again")
        scopes: dict[str, Scope] = {}
        for resource in {resource for _, resource in places}:
            scope = world.scope(resource)
            scopes[resource] = await may_list(world.client, resource, world.namespaces) if scope is None else scope
        return [place for place in places if None in scopes[place[1]] or place[0] in scopes[place[1]]]

    async def sees_all(self, kind: Kind[Any]) -> bool:
        """As the world has found it."""
        return self._world.sees_all(kind)


class CommandViewer:
    """A viewer who asks one question: each place of the history is asked for, and nothing is watched.

    Args:
        client: with the viewer's credentials.
        user: name of the user.
    """

    def __init__(self, client: Client, user: str) -> None:
        self._client, self.user = client, user

    async def shown(self, places: Sequence[Place], namespace: str) -> Collection[Place]:
        """The places whose kind the viewer may list there.

        Raises:
            ApiError: there are too many to ask for, or the server cannot answer.
        """
        candidates = [place for place in places if namespace in ("", place[0])]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def allowed(place: tuple[str | None, str]) -> bool:
            async with turns:
                return await may_list_in(self._client, place[1], place[0])

        kinds = sorted({resource for _, resource in candidates})
        everywhere = await asyncio.gather(*(allowed((EVERYWHERE[0], resource)) for resource in kinds))
        whole = {resource for resource, granted in zip(kinds, everywhere, strict=True) if granted}
        left = [place for place in candidates if place[1] not in whole]
        if len(left) > MOST_PLACES:
            raise ApiError(
                f"the history has more than {MOST_PLACES:,} pairs of namespace and kind of job, and you may not list "
                "jobs of all namespaces: name one with --namespace",
                code=400,
                reason="BadRequest",
            )
        granted = await asyncio.gather(*map(allowed, left))
        own = {place for place, yes in zip(left, granted, strict=True) if yes}
        return [place for place in candidates if place[1] in whole or place in own]

    async def sees_all(self, kind: Kind[Any]) -> bool:
        """As the server answers now."""
        return await may(self._client, "list", kind)


class Past:
    """Answers questions about the past.

    Args:
        source: where it is kept.
    """

    def __init__(self, source: HistorySource) -> None:
        self._source = source
        # The source answers one question after the other: of each tenant one waits there, of each of its users one for
        # that, and the others wait for those.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def answer(self, viewer: Viewer, what: str, query: Mapping[str, str]) -> bytes | None:
        """The answer as JSON; None where there is no such question.

        Raises:
            ApiError: the question cannot be read, it is not for this viewer, or nothing can be said now.
        """
        user = viewer.user
        own, all_of_tenant = (self._turns.setdefault(name, asyncio.Lock()) for name in (f":{user}", tenant(user)))
        async with own, all_of_tenant:
            shown = await viewer.shown(await self._source.places(), query.get("namespace", ""))
            capacity, queues = await viewer.sees_all(NODES), await viewer.sees_all(QUEUES)
            return await self._source.answer(what, query, shown, capacity=capacity, queues=queues)
