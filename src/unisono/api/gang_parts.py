"""Parts of gangs: what their pods will ask for, on the PodGroup, and room that a hub holds for them in members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from unisono.api.core import Container, PodSpec, ResourceRequirements, Volume
from unisono.api.quantity import QuantityError
from unisono.api.resources import pod_requests

# What the pods of a gang will ask for, on its PodGroup, so that it can be told while the pods do not exist yet.
#
# Controllers write the annotation; the engine reads it when it explains why a gang waits for admission. It decides
# nothing: admission counts ``minResources``.

_MOST_BYTES = 16 * 1024
_MOST_PARTS = 64
_MOST_PODS = 1_000_000


class Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Pods of a gang that are made from one template.

    Attributes:
        role: name of the task or replica type; empty where there are none.
        count: how many of them the smallest gang has.
        replicas: how many there will be in all.
        later: how many are made when others run; no member of the gang, but in its minResources.
        spec: what of their spec decides where they may run.
    """

    role: str = ""
    count: int = 0
    replicas: int = 0
    later: int = 0
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


def encode_parts(parts: Iterable[Part]) -> str:
    """The annotation's text; without selectors and affinities where it would be too long, ``""`` where it still is."""
    given = list(parts)
    if len(given) > _MOST_PARTS:
        return ""
    for reduced in (_placing, _asking):
        text = msgspec.json.encode([msgspec.structs.replace(part, spec=reduced(part.spec)) for part in given]).decode()
        if len(text.encode()) <= _MOST_BYTES:
            return text
    return ""


@lru_cache(maxsize=256)
def decode_parts(text: str) -> tuple[Part, ...]:
    """The parts in an annotation's text; none where it holds something else, for users may write it as they like."""
    if len(text) > _MOST_BYTES:
        return ()
    try:
        parts = msgspec.json.decode(text, type=tuple[Part, ...])
        for part in parts:
            pod_requests(part.spec)
    except (msgspec.DecodeError, QuantityError, RecursionError):
        return ()
    sound = len(parts) <= _MOST_PARTS and all(
        0 <= n <= _MOST_PODS for part in parts for n in (part.count, part.replicas, part.later)
    )
    return parts if sound else ()


def _placing(spec: PodSpec) -> PodSpec:
    """Everything that filters look at, but what ties pods to other pods."""
    affinity = spec.affinity
    volumes = [
        Volume(name=one.name, persistent_volume_claim=one.persistent_volume_claim)
        for one in spec.volumes or ()
        if one.persistent_volume_claim is not None
    ]
    return PodSpec(
        containers=[_bare(one, spec) for one in spec.containers or ()],
        init_containers=[_bare(one, spec) for one in spec.init_containers or ()] or None,
        overhead=spec.overhead,
        resources=spec.resources,
        host_network=spec.host_network,
        node_selector=spec.node_selector,
        affinity=msgspec.structs.replace(affinity, pod_affinity=None, pod_anti_affinity=None) if affinity else None,
        tolerations=spec.tolerations,
        volumes=volumes or None,
        resource_claims=[one for one in spec.resource_claims or () if one.resource_claim_name] or None,
    )


def _asking(spec: PodSpec) -> PodSpec:
    """Its amounts alone."""
    return PodSpec(
        containers=[_amounts(one) for one in spec.containers or ()],
        init_containers=[_amounts(one) for one in spec.init_containers or ()] or None,
        overhead=spec.overhead,
        resources=spec.resources,
    )


def _bare(container: Container, spec: PodSpec) -> Container:
    ports = [port for port in container.ports or () if port.host_port or spec.host_network] or None
    return msgspec.structs.replace(_amounts(container), ports=ports)


def _amounts(container: Container) -> Container:
    resources = container.resources
    return Container(
        name=container.name,
        resources=ResourceRequirements(requests=resources.requests, limits=resources.limits),
        restart_policy=container.restart_policy,
    )


# Room that a hub holds in a member for parts of gangs: what stands in the member's ConfigMap (pure).
#
# The ConfigMap lies in a namespace in which users have no rights, so that the hub alone says what is held.


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
    rooms = ((key, decode_room(text)) for key, text in sorted(data.items()))
    return {key: room for key, room in rooms if room is not None}
