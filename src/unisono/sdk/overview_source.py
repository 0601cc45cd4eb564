"""Asks a server for what an overview needs, all at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.annotations import ORIGIN_UID
from unisono.api.decode import decode
from unisono.api.fleet_kinds import ATTACHED_CLUSTERS
from unisono.api.kinds import LEASES, NODES, POD_GROUPS, PODS, QUEUES
from unisono.errors import ApiError, UnisonoError
from unisono.sdk.overview import Found, Overview, overview

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_overview(client: HttpClient) -> Overview:
    """The overview now.

    Kinds that the user may not list are empty; so is a server that is not ready but answers.

    Raises:
        Unavailable: the server cannot be reached.
        ApiError: it refuses who asks.

    """
    (ready, leases, clusters), (nodes, pods, queues, groups) = await asyncio.gather(
        asyncio.gather(_readiness(client), _list(client, LEASES), _list(client, ATTACHED_CLUSTERS)),
        asyncio.gather(
            _list(client, NODES), _list(client, PODS, _ALIVE), _list(client, QUEUES), _list(client, POD_GROUPS)
        ),
    )
    if clusters:
        pods = [*pods, *await _pods_of_members(client)]
    found = Found(ready, nodes, pods, queues, groups, leases, clusters)
    return overview(found, client.transport.clock.time())


async def _readiness(client: HttpClient) -> str:
    status, _, body = await client.request("GET", "/readyz")
    if status in (200, 401, 403, 404):
        return ""
    lines = body.decode(errors="replace").strip().splitlines()
    return next((line for line in lines if line.startswith("[-]")), lines[0] if lines else f"it answered {status}")


async def _pods_of_members(client: HttpClient) -> list[Pod]:
    """Pods of a hub's jobs, which it shows in tables only."""
    params = {"includeObject": "Object", "labelSelector": ORIGIN_UID}
    status, _, body = await client.request("GET", "/api/v1/pods", params=params, accept=_TABLE)
    if status != 200:
        return []
    pods: list[Pod] = []
    for row in msgspec.json.decode(body).get("rows") or ():
        with suppress(msgspec.MsgspecError, UnisonoError):  # what a member shows is not the hub's own
            pods.append(decode(PODS, row.get("object")).obj)
    return pods


async def _list(client: HttpClient, kind: Any, fields: str = "") -> list[Any]:
    try:
        return (await client.list(kind, field_selector=fields)).items
    except ApiError as error:
        if error.code in (403, 404):
            return []
        raise
