"""Tells members for which parts of gangs the hub holds room there, in a ConfigMap for their schedulers.

A member whose scheduler does not read it runs on as before: there the hub alone keeps to what is reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from unisono.api.annotations import HUB
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Pod
from unisono.api.gang_parts import MOST_PODS, NAME, NAMESPACE, HeldRoom, encode_room, room_key
from unisono.api.kinds import CONFIG_MAPS
from unisono.api.resources import pod_requests, to_wire
from unisono.errors import NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.work import PlacedPart
from unisono.fleet.jobs.translation import is_to_come, own_name
from unisono.fleet.members.joining import bring
from unisono.fleet.members.member import Busy, Member
from unisono.kube.controller import Context, Controller

MOST_BYTES: Final = 900_000
"""Of all parts in one member: an object has a megabyte at most."""
_BUSY_SECONDS: Final = 1.0

Rooms = Callable[[str], list[tuple[str, PlacedPart, float, float]]]
"""Of a member: namespace and place of each part for which room is held, until when, and for how long at most."""


class HeldRoomController(Controller):
    """Keeps the ConfigMap of each member; keys are their names."""

    name = "fleet-held-room"
    workers = 16

    def __init__(self, state: HubState, members: Callable[[str], Member | None], rooms: Rooms) -> None:
        self._state, self._members, self._rooms = state, members, rooms
        self._told: dict[str, dict[str, str]] = {}

    def setup(self, context: Context) -> None:
        """Nothing is watched: who changes what is held says so."""
        self._context, self._clock = context, context.clock

    def look_again(self, cluster: str) -> None:
        """What is held in a member may have changed."""
        self._context.enqueue(cluster)

    def forget(self, cluster: str) -> None:
        """A member has come or gone: what it was told is not known."""
        self._told.pop(cluster, None)
        self._context.enqueue(cluster)

    async def reconcile(self, key: str) -> float | None:
        """Tell one member."""
        member, view = self._members(key), self._state.views.get(key)
        if member is None or view is None or not view.reachable:
            self._told.pop(key, None)
            return None
        now = self._clock.time()
        parts = [each for each in self._rooms(key) if each[2] > now]
        desired = rooms_to_tell(parts, self._state.stand_ins.places)
        if desired != self._told.get(key):
            try:
                async with member.writing() as client:
                    keys = {room_key(place.uid, place.generation) for _, place, _, _ in parts}
                    await _write(client, self._state.hub, desired, keys)
            except Busy:
                return _BUSY_SECONDS
            self._told[key] = desired
        return min((until - now for _, _, until, _ in parts), default=None)


def rooms_to_tell(
    parts: list[tuple[str, PlacedPart, float, float]], places: Callable[[str], list[tuple[str, Pod]]]
) -> dict[str, str]:
    """What a member's ConfigMap is to hold; ``places``: node and pod for each pod of a job that has no node yet."""
    rooms: dict[str, str] = {}
    size = 0
    for namespace, place, until, seconds in parts:
        chosen = places(place.uid)
        if not chosen or len(chosen) > MOST_PODS or any(is_to_come(node) for node, _ in chosen):
            continue
        requests: dict[tuple[tuple[str, str], ...], int] = {}
        pods: dict[str, tuple[str, int]] = {}
        for node, pod in chosen:
            asked = tuple(sorted(to_wire(pod_requests(pod.spec)).items()))
            pods[pod.metadata.name] = (own_name(node), requests.setdefault(asked, len(requests)))
        text = encode_room(HeldRoom(namespace, until, seconds, [dict(asked) for asked in requests], pods))
        size += len(text)
        if size <= MOST_BYTES:
            rooms[room_key(place.uid, place.generation)] = text
    return rooms


async def _write(client: Any, hub: str, wanted: Mapping[str, str], keys: Collection[str]) -> None:
    """Bring the ConfigMap about; of ``keys`` that are not in ``wanted`` it keeps what it has.

    A hub that has started again knows no longer which nodes it chose.
    """
    try:
        existing: ConfigMap | None = await client.get(CONFIG_MAPS, NAME, NAMESPACE)
    except NotFound:
        existing = None
    if existing is None:
        if wanted:
            meta = ObjectMeta(name=NAME, namespace=NAMESPACE, labels={HUB: hub})
            await bring(client, CONFIG_MAPS, ConfigMap(metadata=meta, data=dict(wanted)))
        return
    if (existing.metadata.labels or {}).get(HUB) != hub:
        return  # of another hub, which came first
    data = existing.data or {}
    gone = dict.fromkeys(data.keys() - wanted.keys() - set(keys))
    if gone or any(data.get(key) != text for key, text in wanted.items()):
        await client.patch(CONFIG_MAPS, NAME, {"data": {**gone, **wanted}}, namespace=NAMESPACE)
