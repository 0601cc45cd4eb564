"""The newest warning about each pod, among the events of its namespace."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.kinds import EVENTS

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient


@dataclass(frozen=True, slots=True)
class PodWarning:
    """One event; ``seen`` is when it came last, RFC 3339, or empty."""

    pod: str
    reason: str
    message: str
    seen: str


async def newest_warnings(client: HttpClient, namespace: str, pods: Collection[str]) -> dict[str, PodWarning]:
    """By name of pod its newest warning; empty where events cannot be read.

    Raises:
        OSError: the server cannot be reached.

    """
    params = {"fieldSelector": "type=Warning,involvedObject.kind=Pod"}
    status, _, body = await client.request("GET", EVENTS.path(namespace), params=params)
    if status >= 300:
        return {}
    found: dict[str, PodWarning] = {}
    items: list[dict[str, Any]] = msgspec.json.decode(body).get("items") or []
    for item in items:
        name = (item.get("involvedObject") or {}).get("name") or ""
        warning = PodWarning(name, str(item.get("reason") or ""), str(item.get("message") or ""), _seen(item))
        if name in pods and (name not in found or warning.seen > found[name].seen):
            found[name] = warning
    return found


def _seen(event: dict[str, Any]) -> str:
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
