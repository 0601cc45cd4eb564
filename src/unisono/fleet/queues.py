"""Queues of the hub in its members: the same names, so that a dispatched job finds its queue.

The hub holds the limits over all members; a member gets them too, never a share of them. Of a queue that takes its
limits from the members it is the other way round: members have it of their own, and the hub adds up what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog

from unisono.api.annotations import HUB, LIMITS_FROM
from unisono.api.base import ObjectMeta
from unisono.api.documents import merge_diff
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kinds import QUEUES
from unisono.api.resources import add, resource_list, to_wire
from unisono.api.selecting import DEFAULT_QUEUE
from unisono.controllers.objects import to_json
from unisono.controllers.queue import ROOT
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import AlreadyExists, ApiError, Invalid, NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.members.member import Member
from unisono.kube.controller import Context, Controller

_log = structlog.get_logger(__name__)
_CHECK_SECONDS = 60.0
MEMBERS = "members"
"""Value of the annotation of a queue whose limits the members say."""
# Queues that every member has of its own.
_OWN = frozenset((ROOT, DEFAULT_QUEUE))

_SUM_SECONDS = 15.0


def summed(specs: Sequence[QueueSpec]) -> dict[str, Any]:
    """What the limits of a queue are over members that have it with these specs.

    A resource that one of them does not limit has no limit in all of them. Without any member nothing may be used.
    """
    limits = [spec.capability or {} for spec in specs]
    limited = set.intersection(*map(set, limits)) if limits else {"cpu", "memory"}
    none = dict.fromkeys(sorted(limited), "0")
    return {
        "capability": _sum([none, *({name: each[name] for name in limited} for each in limits)]),
        "deserved": _sum([spec.deserved for spec in specs]),
        "guarantee": {"resource": _sum([spec.guarantee.resource for spec in specs if spec.guarantee is not None])},
    }


def _sum(lists: Sequence[Mapping[str, Any] | None]) -> dict[str, str] | None:
    total: dict[str, int] = {}
    for each in lists:
        # A member that says less than nothing takes nothing from the others.
        add(total, {name: max(amount, 0) for name, amount in resource_list(each).items()})
    return to_wire(total) or None


class QueueCopies(Controller):
    """Brings the hub's queues to every member that is reachable."""

    name = "fleet-queues"
    workers = 16

    def __init__(self, state: HubState, members: Callable[[str], Member | None], recorder: Recorder) -> None:
        """``members`` finds the connection to a member."""
        self._state, self._members, self._announcer = state, members, Announcer(recorder)
        # By queue: what each member that was asked has of it, None for those that do not have it.
        self._told: dict[str, dict[str, QueueSpec | None]] = {}

    def setup(self, context: Context) -> None:
        """Watch the hub's queues; keys are ``MEMBER/QUEUE``, so that one member does not delay another."""
        self._context, self._client = context, context.client
        self._queues = context.watch(QUEUES, self._everywhere)
        self._announcer.forget_deleted(self._queues)

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
        queue = self._queues.get(name)
        if queue is not None and _takes_limits(queue) and not queue.metadata.deletion_timestamp:
            return await self._add_up(queue, cluster, member)
        self._told.pop(name, None)
        async with member.writing() as client:
            existing = await _found(client, name)
            if queue is None or queue.metadata.deletion_timestamp:
                await self._remove(client, existing)
                return None
            if existing is None:
                await self._make(client, queue)
            elif (existing.metadata.labels or {}).get(HUB) == self._state.hub:
                patch = merge_diff(to_json(existing.spec), to_json(queue.spec))
                if patch:
                    await client.patch(QUEUES, name, {"spec": patch})
        return _CHECK_SECONDS

    async def _add_up(self, queue: Queue, cluster: str, member: Member) -> float:
        """Read what a member says of its own queue; the hub's has the sum, also of what lost members said."""
        name = queue.metadata.name
        async with member.writing() as client:
            existing = await _found(client, name)
        specs_by_cluster = self._told.setdefault(name, {})
        own = existing is not None and (existing.metadata.labels or {}).get(HUB) != self._state.hub
        specs_by_cluster[cluster] = existing.spec if existing is not None and own else None
        members = self._state.members()
        if any(each not in specs_by_cluster for each in members):
            return _SUM_SECONDS  # a hub that has just begun does not know what the others say
        combined = summed([spec for each in members if (spec := specs_by_cluster[each]) is not None])
        before = to_json(queue.spec)
        if patch := merge_diff({key: before[key] for key in combined if key in before}, _given(combined)):
            body = {"metadata": {"resourceVersion": queue.metadata.resource_version}, "spec": patch}
            try:
                await self._client.patch(QUEUES, name, body)
            except Invalid as error:
                self._announcer.tell(queue, [Notice("Warning", "LimitsRefused", str(error), once=str(error))])
        return _SUM_SECONDS

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


def _takes_limits(queue: Queue) -> bool:
    return (queue.metadata.annotations or {}).get(LIMITS_FROM) == MEMBERS


def _given(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Without what nobody says."""
    if not (wanted["guarantee"] or {}).get("resource"):
        wanted = {**wanted, "guarantee": None}
    return {key: each for key, each in wanted.items() if each is not None}


async def _found(client: Any, name: str) -> Queue | None:
    try:
        queue: Queue = await client.get(QUEUES, name)
    except NotFound:
        return None
    return queue


def _kept(annotations: Mapping[str, str]) -> dict[str, str] | None:
    return {key: value for key, value in annotations.items() if key.startswith("volcano.sh/")} or None
