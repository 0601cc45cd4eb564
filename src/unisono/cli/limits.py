"""Limits that the node of a job does not enforce, as its events tell."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from unisono.errors import ApiError

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_REASON = "LimitNotEnforced"


async def unenforced_limits(client: HttpClient, namespace: str, pods: Collection[str]) -> list[str]:
    """What the nodes' agents say of limits of these pods, each sentence once; nothing where events cannot be read."""
    from unisono.kube.discovery import request_json

    path = f"/api/v1/namespaces/{namespace}/events"
    try:
        found = await request_json(client, "GET", path, params={"fieldSelector": f"reason={_REASON}"})
    except ApiError:
        return []
    told = (
        str(event.get("message") or "")
        for event in found.get("items") or []
        if (event.get("involvedObject") or {}).get("name") in pods
    )
    return list(dict.fromkeys(text for text in told if text))
