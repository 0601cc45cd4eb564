"""The worlds that pages look at, one for each set of credentials and namespaces, and when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unisono.dashboard.live.configuration import ConfigurationPlaces
from unisono.dashboard.live.source import Pool
from unisono.dashboard.live.world import World
from unisono.errors import ApiError
from unisono.kube.clock import Clock
from unisono.kube.http import HttpClient
from unisono.lazy_logs import LazyLogger

if TYPE_CHECKING:
    from unisono.kube.kubeconfig import ClusterConfig

_log = LazyLogger(__name__)

_WORLD_SECONDS = 300.0
"""How long views are kept after the last look."""
_MOST_WORLDS_OF_ONE = 8


@dataclass(slots=True)
class Watched:
    """A world, and how many look at it."""

    world: World
    task: asyncio.Task[None]
    viewers: int = 0
    left: float = 0.0


class Worlds:
    """All worlds of one dashboard; ``open`` has them by the identity of their viewers, who share ``pool``.

    Args:
        client_of: makes the client for a viewer's configuration.
        clock: of this process.
        places: where the scheduler's configuration is looked for.

    """

    def __init__(
        self, client_of: Callable[[ClusterConfig], HttpClient], clock: Clock, places: ConfigurationPlaces
    ) -> None:
        self._client_of, self._clock, self._places, self.pool = client_of, clock, places, Pool()
        self.open: dict[str, Watched] = {}
        self._keeping: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End all of them."""
        if self._keeping is not None:
            self._keeping.cancel()
        for identity in list(self.open):
            await self._end(identity)

    @contextmanager
    def looking(self, identity: str, config: ClusterConfig, user: str, namespaces: tuple[str, ...]) -> Iterator[World]:
        """A world, which runs until some time after the last viewer has left it.

        Args:
            identity: equal for the same credentials and namespaces.
            config: how the API server is asked for this viewer.
            user: name of the user.
            namespaces: to look into where the viewer may not look everywhere.

        Raises:
            ApiError: pages look at all worlds that the user may have.

        """
        watched = self.open.get(identity)
        if watched is None or watched.world.refused is not None or watched.task.done():
            self._make_room_for_world(user)
            world = World(
                self._client_of(config),
                user,
                namespaces,
                clock=self._clock,
                places=self._places,
                pool=self.pool,
            )
            watched = self.open[identity] = Watched(world, asyncio.create_task(self._run(world)))
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep())
        watched.viewers += 1
        try:
            yield watched.world
        finally:
            watched.viewers -= 1
            watched.left = self._clock.monotonic()

    def _make_room_for_world(self, user: str) -> None:
        """Each combination of namespaces has a world of its own, with dozens of watches.

        Raises:
            ApiError: pages look at all that the user may have.

        """
        own = {identity: each for identity, each in self.open.items() if each.world.user == user}
        if len(own) < _MOST_WORLDS_OF_ONE:
            return
        spare = min((key for key, each in own.items() if each.viewers <= 0), key=lambda key: own[key].left, default="")
        if not spare:
            why = "too many views of different namespaces are open: close some tabs"
            raise ApiError(why, code=429, reason="TooManyRequests")
        self.open.pop(spare).task.cancel()

    async def _run(self, world: World) -> None:
        try:
            await world.run()
        except Exception:
            _log.exception("dashboard.world_failed", user=world.user)
        finally:
            await world.client.close()

    async def _keep(self) -> None:
        """End worlds that no page has shown for a while."""
        while self.open:
            await self._clock.sleep(_WORLD_SECONDS / 10)
            now = self._clock.monotonic()
            for identity, watched in list(self.open.items()):
                if watched.viewers <= 0 and now - watched.left > _WORLD_SECONDS:
                    await self._end(identity)

    async def _end(self, identity: str) -> None:
        watched = self.open.pop(identity)
        watched.task.cancel()
        await asyncio.gather(watched.task, return_exceptions=True)
