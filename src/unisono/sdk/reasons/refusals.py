"""Pods that the server refuses to create, for a quota or another rule: what the controllers' events tell of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.kinds import EVENTS
from unisono.sdk.state.refused import SECOND, event_time

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

# Reasons of events about what an object could not make: FailedCreatePod, FailedCreateService, FailedToCreateRayCluster.
_FAILED_TO_CREATE = ("FailedCreate", "FailedToCreate", "ReplicaSetCreateError", "PVCError", "PluginError")
# Objects that are asked about one by one; what refuses the pods of one refuses those of the others too.
_OBJECTS = 10


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last thing that an object could not create.

    Attributes:
        kind: of the object.
        name: of the object.
        message: the controller's, with the server's answer in it.
    """

    kind: str
    name: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}: {self.message}"

    def json(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


def refusal(events: Iterable[dict[str, Any]], made: str) -> Refusal | None:
    """The newest refusal among an object's events; None where a pod has come after it.

    Args:
        events: of one object, as the server gives them.
        made: when the object's newest pod was created, as on the wire; empty where it has none.
    """
    refusal_events = [event for event in events if _is_refusal(event)]
    last = max(refusal_events, key=event_time, default=None)
    if last is None or event_time(last) < made[:SECOND]:
        return None
    about = last.get("involvedObject") or {}
    return Refusal((about.get("kind") or "").lower(), about.get("name") or "", last.get("message") or "")


def _is_refusal(event: dict[str, Any]) -> bool:
    by_reason = str(event.get("reason") or "").startswith(_FAILED_TO_CREATE)
    by_message = str(event.get("message") or "").startswith(
        "Error creating: "
    )  # whatever the kind's controller calls it
    return event.get("type") == "Warning" and (by_reason or by_message)


async def refusals(client: HttpClient, owners: Sequence[Any], pods: Sequence[Pod]) -> list[Refusal]:
    """Of an object and of what it owns, what could not be created and still has not been.

    Args:
        client: the server.
        owners: the object and those between it and its pods.
        pods: all pods that it has.
    """
    made: dict[str, str] = {}
    for pod in pods:
        for reference in pod.metadata.owner_references or ():
            made[reference.uid] = max(made.get(reference.uid, ""), str(pod.metadata.creation_timestamp or ""))
    refused: list[Refusal] = []
    for owner in owners[:_OBJECTS]:
        meta = owner.metadata
        params = {"fieldSelector": f"involvedObject.uid={meta.uid}"}
        status, _, body = await client.request("GET", EVENTS.path(meta.namespace), params=params)
        if status >= 300:
            # Users who may read jobs may not always read events; the rest of the answer is true without them.
            return refused
        latest = refusal(msgspec.json.decode(body).get("items") or (), made.get(meta.uid or "", ""))
        if latest is not None:
            refused.append(latest)
    return refused
