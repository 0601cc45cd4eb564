"""Queues of the hub in its members: the same names, so that a dispatched job finds its queue.

The hub holds the limits over all members; a member gets them too, never a share of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import structlog

from unisono.api.annotations import HUB
from unisono.api.base import ObjectMeta
from unisono.api.documents import merge_diff
from unisono.api.groups.scheduling import Queue
from unisono.api.kinds import QUEUES
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.controllers.objects import to_json
from unisono.controllers.queue import ROOT
from unisono.errors import AlreadyExists, ApiError, NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.members.member import Member
from unisono.kube.controller import Context, Controller

_log = structlog.get_logger(__name__)
_CHECK_SECONDS = 60.0
# Queues that every member has of its own.
_OWN = frozenset((ROOT, DEFAULT_QUEUE))


class QueueCopies(Controller):
    """Brings the hub's queues to every member that is reachable."""

    name = "fleet-queues"
    workers = 16

    def __init__(self, state: HubState, members: Callable[[str], Member | None]) -> None:
        """``members`` finds the connection to a member."""
        self._state, self._members = state, members

    def setup(self, context: Context) -> None:
        """Watch the hub's queues; keys are ``MEMBER/QUEUE``, so that one member does not delay another."""
        self._context = context
        self._queues = context.watch(QUEUES, self._everywhere)

    def look_again(self, cluster: str) -> None:
        """A member has changed."""
        for queue in self._queues.items():
            self._context.enqueue(f"{cluster}/{queue.metadata.name}")

    async def reconcile(self, key: str) -> float | None:
        """Bring one queue to one member."""
        cluster, _, name = key.partition("/")
        member, view = self._members(cluster), self._state.views.get(cluster)
        if name in _OWN or member is None or view is None or not view.reachable:
            return None
        wanted = self._queues.get(name)
        async with member.writing() as client:
            found = await _found(client, name)
            if wanted is None or wanted.metadata.deletion_timestamp:
                await self._remove(client, found)
                return None
            if found is None:
                await self._make(client, wanted)
            elif (found.metadata.labels or {}).get(HUB) == self._state.hub:
                patch = _difference(found, wanted)
                if patch:
                    await client.patch(QUEUES, name, {"spec": patch})
        return _CHECK_SECONDS

    async def _make(self, client: Any, wanted: Queue) -> None:
        copied = Queue(
            metadata=ObjectMeta(
                name=wanted.metadata.name,
                labels={HUB: self._state.hub},
                annotations=_kept(wanted.metadata.annotations or {}),
            ),
            spec=wanted.spec,
        )
        try:
            await client.create(QUEUES, copied)
        except AlreadyExists:
            return

    async def _remove(self, client: Any, found: Queue | None) -> None:
        """A queue that is no more on the hub goes; one that is in use there refuses, and is asked again."""
        if found is None or (found.metadata.labels or {}).get(HUB) != self._state.hub:
            return
        try:
            await client.delete(QUEUES, found.metadata.name, uid=found.metadata.uid)
        except ApiError as error:
            _log.info("queue.kept", queue=found.metadata.name, error=str(error))
            raise

    def _everywhere(self, queue: Queue) -> Iterable[str]:
        return [f"{cluster}/{queue.metadata.name}" for cluster in self._state.members()]


async def _found(client: Any, name: str) -> Queue | None:
    try:
        queue: Queue = await client.get(QUEUES, name)
    except NotFound:
        return None
    return queue


def _difference(found: Queue, wanted: Queue) -> dict[str, Any]:
    return merge_diff(to_json(found.spec), to_json(wanted.spec))


def _kept(annotations: Mapping[str, str]) -> dict[str, str] | None:
    return {key: value for key, value in annotations.items() if key.startswith("volcano.sh/")} or None
