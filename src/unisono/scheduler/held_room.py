"""Room that the hub of a fleet holds here for parts of gangs: it counts as used until their pods have come.

Each part is a promise in the state (`unisono.cluster.promises`): room on the nodes that the hub has chosen, as far as
they have any, whose owner is the part's PodGroup. As soon as its gang can be placed, pods that are there take the place
of what stands for them, and ask for their nodes first, as pods do for which others were evicted. Room is free again at
the latest when its time is over, by this machine's clock.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from unisono.api.annotations import DISPATCH, ORIGIN_UID, USE
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Container, Pod, PodSpec, ResourceRequirements
from unisono.api.gang_parts import MOST_SECONDS, NAME, NAMESPACE, HeldRoom, decode_rooms
from unisono.api.keys import TASK_SPEC
from unisono.api.kinds import CONFIG_MAPS, QUEUES
from unisono.api.selecting import pod_group_of
from unisono.cluster.promises import owner_of
from unisono.engine.plugins.fair_share import UsageBook, Use, written
from unisono.errors import NotFound, UnisonoError
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.reflector import Reflector
from unisono.scheduler.feed import Feed

_log = structlog.get_logger(__name__)

_ABSENT_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 5.0
_OWNER: Final = "unisono-hub"
"""``schedulerName`` of what stands for pods that are to come."""


@dataclass(slots=True)
class _Room:
    """One part: until when it is held, and which of its pods have come, with their roles; their PodGroup."""

    held: HeldRoom
    owner: str
    latest: float
    deadline: float
    came: dict[str, str] = field(default_factory=dict)
    job: str = ""
    over: bool = False


class HeldRooms:
    """Sink of the ConfigMap; `Feed` shows it every pod."""

    def __init__(self, feed: Feed, clock: Clock) -> None:
        self._feed, self._clock = feed, clock
        self._rooms: dict[str, _Room] = {}
        feed.guests = self

    def reflector(self, client: Client) -> Reflector[ConfigMap]:
        """The watch that feeds it."""
        return Reflector(
            client,
            CONFIG_MAPS,
            self,
            namespace=NAMESPACE,
            field_selector=f"metadata.name={NAME}",
            clock=self._clock,
            absent_seconds=_ABSENT_SECONDS,
        )

    async def run(self) -> None:
        """Free what is over until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            now = self._clock.monotonic()
            if any(not room.over and room.deadline <= now for room in self._rooms.values()):
                self._feed.do(self._free_late)

    # ---- the ConfigMap

    def replace(self, objects: Sequence[ConfigMap], unread: Sequence[tuple[ConfigMap, str]] = ()) -> None:
        """The ConfigMap as it is now, or none."""
        data = (objects[0].data or {}) if objects and not unread else {}
        self._feed.do(lambda: self._take(decode_rooms(data)))

    def refuse(self, obj: ConfigMap, why: str) -> None:
        """It cannot be decoded: nothing is held."""
        _log.warning("held_room.refused", why=why)
        self.replace([])

    def apply(self, event_type: EventType, obj: ConfigMap) -> None:
        """It was made, changed or deleted."""
        self.replace([] if event_type == "DELETED" else [obj])

    def _take(self, wanted: Mapping[str, HeldRoom]) -> None:
        for key in [key for key in self._rooms if key not in wanted]:
            self._free(key, self._rooms.pop(key))
        now = self._clock.monotonic()
        for key, held in wanted.items():
            room = self._rooms.get(key)
            if room is None:
                uid, _, dispatch = key.rpartition(".")
                owner = owner_of(held.namespace, {ORIGIN_UID: uid, DISPATCH: dispatch})
                latest = now + min(max(held.seconds, 0.0), MOST_SECONDS)
                room = self._rooms[key] = _Room(held, owner, latest, now)
                self._begin(key, room)
            room.deadline = min(room.latest, now + held.until - self._clock.time())
        self._free_late()

    # ---- pods

    def seen(self, event_type: EventType, pod: Pod) -> Pod:
        """The pod as the state is to see it: one for which room is held asks for its node first."""
        if not self._rooms or event_type == "DELETED":
            return pod
        labels = pod.metadata.labels or {}
        key = f"{labels.get(ORIGIN_UID, '')}.{labels.get(DISPATCH, '')}"
        room = self._rooms.get(key)
        place = room.held.pods.get(pod.metadata.name) if room is not None else None
        if room is None or place is None or pod.metadata.namespace != room.held.namespace:
            return pod
        room.came[pod.metadata.name] = (pod.metadata.annotations or {}).get(TASK_SPEC, "")
        room.job = pod_group_of(pod)
        self._make_way(key, room)
        late = room.deadline <= self._clock.monotonic()
        if late or pod.spec.node_name or pod.status.nominated_node_name:
            return pod
        return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=place[0]))

    # ---- inside

    def _begin(self, key: str, room: _Room) -> None:
        held, state = room.held, self._feed.state
        for name in held.pods:
            task = state.tasks.get(f"{held.namespace}/{name}")
            if task is not None and owner_of(task.namespace, task.labels) == room.owner:
                room.came[name], room.job = task.role, task.job
        stands = [_pod(key, held, name) for name in sorted(held.pods)]
        state.promise(key, room.owner, held.until, stands)
        _log.info("held_room.begins", part=key, pods=len(stands))
        self._make_way(key, room)

    def _make_way(self, key: str, room: _Room) -> None:
        """What stands for pods that are there goes once they are enough to be placed: before, others would get it."""
        if room.over:
            return
        if len(room.came) == len(room.held.pods):
            self._free(key, room)
        elif self._can_be_placed(room):
            stands = {f"{room.held.namespace}/{_stand_name(key, name)}" for name in room.came}
            self._feed.state.withdraw(key, stands)

    def _can_be_placed(self, room: _Room) -> bool:
        """Whether the part's gang has its minimum, in each of its roles, with the pods that are there."""
        job = self._feed.state.book.jobs.get(room.job)
        if job is None or not job.known or len(room.came) < job.min_member:
            return False
        roles = Counter(room.came.values())
        return all(roles[role] >= least for role, least in job.min_task_member.items())

    def _free_late(self) -> None:
        now = self._clock.monotonic()
        for key, room in self._rooms.items():
            if room.deadline <= now:
                self._free(key, room)

    def _free(self, key: str, room: _Room) -> None:
        if not room.over:
            room.over = True
            self._feed.state.withdraw(key)
            _log.info("held_room.ends", part=key, came=len(room.came))


def _stand_name(key: str, name: str) -> str:
    uid, _, dispatch = key.rpartition(".")
    return f"{name} (room held for {uid[:8]}.{dispatch})"


def _pod(key: str, held: HeldRoom, name: str) -> Pod:
    """What stands for one pod: no object has such a name, and verdicts show it to people."""
    node, at = held.pods[name]
    requests = held.requests[at]
    resources = ResourceRequirements(requests=dict(requests), limits=dict(requests))
    return Pod(
        metadata=ObjectMeta(name=_stand_name(key, name), namespace=held.namespace, uid=f"held:{key}/{name}"),
        spec=PodSpec(
            node_name=node, scheduler_name=_OWNER, containers=[Container(name="held", image="", resources=resources)]
        ),
    )


# Writes what users have used on their queues now and then, so that the next scheduler goes on from there.
#
# The plug-in `fair-share` reads it when it begins. At most the use of one interval is lost, and none when the scheduler
# is stopped in order.

INTERVAL_SECONDS = 300.0
_CLOSE_SECONDS = 2.0


class KeptUse:
    """Keeps the book of decayed use on the queues; failures are logged, and the next try is an interval later."""

    def __init__(self, client: Client, feed: Feed, clock: Clock) -> None:
        self._client, self._feed, self._clock = client, feed, clock
        self._resting: dict[str, dict[str, float]] = {}
        self._failing = False

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_SECONDS)
            await self.write()

    async def close(self) -> None:
        """Write once more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.write()

    async def write(self) -> None:
        """Bring the annotation of every queue in which something is or was used up to date."""
        book = self._feed.state.memo.find(UsageBook)
        for name, uses in (book.kept(self._clock.time()) if book is not None else {}).items():
            if self._changes_nothing(name, uses):
                continue
            try:
                await self._client.patch(QUEUES, name, {"metadata": {"annotations": {USE: written(uses)}}})
            except NotFound:
                continue
            except (UnisonoError, OSError, TimeoutError) as error:
                if not self._failing:
                    _log.warning("kept_use.failed", queue=name, error=str(error) or type(error).__name__)
                self._failing = True
                return
            self._failing = False
            resting = not any(use.held for use in uses.values())
            self._resting[name] = {account: use.seconds for account, use in uses.items()} if resting else {}

    def _changes_nothing(self, name: str, uses: dict[str, Use]) -> bool:
        """Nothing is held since the last write: what was written then only fades, which its reader knows."""
        before = self._resting.get(name) or {}
        return bool(before) and all(
            not use.held and use.seconds <= before.get(account, 0.0) for account, use in uses.items()
        )
