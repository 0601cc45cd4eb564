"""Room that a hub holds in a member for parts of gangs: what stands in the member's ConfigMap (pure).

The ConfigMap lies in a namespace in which users have no rights, so that the hub alone says what is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

NAMESPACE: Final = "unisono-fleet"
"""Namespace in a member of what belongs to its hub."""
NAME: Final = "unisono-held-room"
"""Name of the ConfigMap."""
MOST_SECONDS: Final = 3600.0
"""Nothing is held for longer, whatever is asked for."""
MOST_PODS: Final = 20_000
"""Pods of one part that are held at most."""


class HeldRoom(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Room of one part of a gang, until its pods have come.

    Attributes:
        namespace: of its pods.
        until: seconds since 1970 at which the room is free again.
        seconds: for which it is held at most, by the member's clock.
        requests: what pods ask for, by resource; each list of amounts once.
        pods: by name, the node on which room is held for each and which of ``requests`` it asks for.

    """

    namespace: str
    until: float
    seconds: float
    requests: list[dict[str, str]]
    pods: dict[str, tuple[str, int]]


def room_key(uid: str, dispatch: int) -> str:
    """Key in the ConfigMap of a part, by the uid of the hub's job and the number of its dispatch."""
    return f"{uid}.{dispatch}"


def encode_room(room: HeldRoom) -> str:
    """As text; equal rooms give equal texts."""
    return msgspec.json.encode(room, order="deterministic").decode()


def decode_room(text: str) -> HeldRoom | None:
    """What a text says; None for one that cannot be read or is too large."""
    try:
        room = msgspec.json.decode(text, type=HeldRoom)
    except (msgspec.MsgspecError, RecursionError):
        return None
    sound = len(room.pods) <= MOST_PODS and all(0 <= at < len(room.requests) for _, at in room.pods.values())
    return room if sound and room.namespace else None


def decode_rooms(data: Mapping[str, str]) -> dict[str, HeldRoom]:
    """All that a ConfigMap holds, by key, without what cannot be read."""
    found = ((key, decode_room(text)) for key, text in sorted(data.items()))
    return {key: room for key, room in found if room is not None}
