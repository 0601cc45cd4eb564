"""Room that the hub of a fleet holds here for parts of gangs: it counts as used until their pods have come.

For each pod that is to come a pod that is no object stands in the state, on the node that the hub has chosen, as far as
that node has room. When all pods of a part are there, these go, and the pods ask for their nodes first, as pods do for
which others were evicted. Room is free again at the latest when its time is over, by this machine's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from unisono.api.annotations import DISPATCH, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Container, Pod, PodSpec, ResourceRequirements
from unisono.api.held_room import MOST_SECONDS, NAME, NAMESPACE, HeldRoom, decode_rooms, room_key
from unisono.api.kinds import CONFIG_MAPS, PODS
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
    """One part: until when it is held, which of its pods have come, and what stands for them."""

    held: HeldRoom
    latest: float
    deadline: float
    came: set[str] = field(default_factory=set)
    stands: list[Pod] = field(default_factory=list)
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
            self._free(self._rooms.pop(key))
        now = self._clock.monotonic()
        for key, held in wanted.items():
            known = self._rooms.get(key)
            if known is None:
                known = self._rooms[key] = _Room(held, now + min(max(held.seconds, 0.0), MOST_SECONDS), now)
                self._stand(key, known)
            known.deadline = min(known.latest, now + held.until - self._clock.time())
        self._free_late()

    # ---- pods

    def seen(self, event_type: EventType, pod: Pod) -> Pod:
        """The pod as the state is to see it: one for which room is held asks for its node first."""
        if not self._rooms or event_type == "DELETED":
            return pod
        labels = pod.metadata.labels or {}
        uid, dispatch = labels.get(ORIGIN_UID, ""), labels.get(DISPATCH, "")
        room = self._rooms.get(f"{uid}.{dispatch}") if uid else None
        place = room.held.pods.get(pod.metadata.name) if room is not None else None
        if room is None or place is None or pod.metadata.namespace != room.held.namespace:
            return pod
        room.came.add(pod.metadata.name)
        if len(room.came) == len(room.held.pods):
            self._free(room)
        late = room.deadline <= self._clock.monotonic()
        if late or pod.spec.node_name or pod.status.nominated_node_name:
            return pod
        return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=place[0]))

    def pods(self) -> Iterator[Pod]:
        """What stands for pods that are to come."""
        for room in self._rooms.values():
            yield from room.stands

    # ---- inside

    def _stand(self, key: str, room: _Room) -> None:
        held, tasks = room.held, self._feed.state.tasks
        room.came = {
            name
            for name in held.pods
            if (task := tasks.get(f"{held.namespace}/{name}")) is not None
            and room_key(task.labels.get(ORIGIN_UID, ""), _number(task.labels.get(DISPATCH))) == key
        }
        if len(room.came) == len(held.pods):
            room.over = True
            return
        room.stands = [_pod(key, held, name) for name in sorted(held.pods)]
        for stand in room.stands:
            self._feed.state.apply("ADDED", PODS, stand)
        _log.info("held_room.begins", part=key, pods=len(room.stands))

    def _free_late(self) -> None:
        now = self._clock.monotonic()
        for room in self._rooms.values():
            if room.deadline <= now:
                self._free(room)

    def _free(self, room: _Room) -> None:
        room.over = True
        stands, room.stands = room.stands, []
        for stand in stands:
            self._feed.state.apply("DELETED", PODS, stand)
        if stands:
            _log.info("held_room.ends", pods=len(stands), came=len(room.came))


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 19 else -1


def _pod(key: str, held: HeldRoom, name: str) -> Pod:
    """What stands for one pod: no object has such a name, and verdicts show it to people."""
    node, at = held.pods[name]
    requests = held.requests[at]
    uid, _, dispatch = key.rpartition(".")
    resources = ResourceRequirements(requests=dict(requests), limits=dict(requests))
    return Pod(
        metadata=ObjectMeta(
            name=f"{name} (room held for {uid[:8]}.{dispatch})", namespace=held.namespace, uid=f"held:{key}/{name}"
        ),
        spec=PodSpec(
            node_name=node, scheduler_name=_OWNER, containers=[Container(name="held", image="", resources=resources)]
        ),
    )
