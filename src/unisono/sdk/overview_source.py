"""Asks a server for what an overview needs, all at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from unisono.api.kinds import LEASES, NODES, POD_GROUPS, PODS, QUEUES
from unisono.errors import ApiError
from unisono.sdk.overview import Found, Overview, overview

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_overview(client: HttpClient) -> Overview:
    """The overview now.

    Kinds that the user may not list are empty; so is a server that is not ready but answers.

    Raises:
        Unavailable: the server cannot be reached.
        ApiError: it refuses who asks.

    """
    ready, nodes, pods, queues, groups, leases = await asyncio.gather(
        _readiness(client),
        _list(client, NODES),
        _list(client, PODS, _ALIVE),
        _list(client, QUEUES),
        _list(client, POD_GROUPS),
        _list(client, LEASES),
    )
    found = Found(ready, nodes, pods, queues, groups, leases)
    return overview(found, client.transport.clock.time())


async def _readiness(client: HttpClient) -> str:
    status, _, body = await client.request("GET", "/readyz")
    if status in (200, 401, 403, 404):
        return ""
    lines = body.decode(errors="replace").strip().splitlines()
    return next((line for line in lines if line.startswith("[-]")), lines[0] if lines else f"it answered {status}")


async def _list(client: HttpClient, kind: Any, fields: str = "") -> list[Any]:
    try:
        return (await client.list(kind, field_selector=fields)).items
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise
