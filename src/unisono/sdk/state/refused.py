"""What the server says to pods that it refuses, of all objects at once, as events tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.kinds import EVENTS

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_OF_PODS = ("FailedCreate", "FailedCreatePod")
SECOND = len("2026-01-01T00:00:00")
"""Of a time up to its second, without its fraction: events and pods are written with different ones."""


async def newest_refusals(client: HttpClient, namespace: str = "") -> dict[str, str]:
    """The newest thing that objects could not create, by their UIDs, as far as the user may read events.

    Of one namespace, or of all: who may see one alone gets no answer about all.
    """
    newest: dict[str, dict[str, Any]] = {}
    for reason in _OF_PODS:
        params = {"fieldSelector": f"reason={reason}"}
        status, _, body = await client.request("GET", EVENTS.path(namespace), params=params)
        for event in (msgspec.json.decode(body).get("items") or ()) if status < 300 else ():
            uid = (event.get("involvedObject") or {}).get("uid") or ""
            if uid not in newest or event_time(newest[uid]) <= event_time(event):
                newest[uid] = event
    return {uid: str(event.get("message") or "") for uid, event in newest.items()}


def answer_in(message: str) -> str:
    """The server's answer in a message, without the pods that it speaks of: the same for all that it refuses so."""
    return message.rpartition(" is forbidden: ")[2]


def event_time(event: dict[str, Any]) -> str:
    """When an event was seen last, to the second; RFC 3339 sorts as text."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, times), ""))[:SECOND]
