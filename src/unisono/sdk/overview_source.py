"""Asks a server for what an overview needs, all at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.annotations import ORIGIN_UID
from unisono.api.decode import decode
from unisono.api.groups.admission_registration import WEBHOOK_KINDS, ValidatingWebhook, does_our_work, hindrance
from unisono.api.kind_families import ATTACHED_CLUSTERS
from unisono.api.kinds import LEASES, NODES, POD_GROUPS, PODS, QUEUES, SERVICES
from unisono.errors import ApiError, NotFound, UnisonoError
from unisono.sdk.components import Component
from unisono.sdk.overview import Found, Overview, overview

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_ALIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def read_overview(client: HttpClient, namespace: str = "default") -> Overview:
    """The overview now.

    Args:
        client: of the server.
        namespace: whose jobs are shown to a user who may not list those of all.

    What the user may not list is empty, and named in ``unseen``; so is a server that is not ready but answers.

    Raises:
        Unavailable: the server cannot be reached.
        ApiError: it refuses who asks.

    """
    asked = _Asked(client, namespace)
    (ready, leases, clusters), (nodes, pods, queues, groups) = await asyncio.gather(
        asyncio.gather(_readiness(client), asked.objects(LEASES), asked.objects(ATTACHED_CLUSTERS)),
        asyncio.gather(
            asked.objects(NODES),
            asked.objects(PODS, _ALIVE, within=True),
            asked.objects(QUEUES),
            asked.objects(POD_GROUPS, within=True),
        ),
    )
    if clusters:
        pods = [*pods, *await _pods_of_members(client)]
    # Who sees no member need not know that there is such a kind.
    unseen = tuple(sorted(asked.unseen - {ATTACHED_CLUSTERS.plural}))
    found = Found(ready, nodes, pods, queues, groups, leases, clusters, unseen, asked.within)
    told = overview(found, client.transport.clock.time())
    hooks = await unreached_webhooks(client)
    parts = [Component(f"webhook {name}", f"it stops what it is asked about: {why}") for name, why in hooks.items()]
    return replace(told, components=[*told.components, *parts]) if parts else told


async def unreached_webhooks(client: HttpClient) -> dict[str, str]:
    """Webhooks that must answer and cannot, by name, and why, as far as the user may see them."""
    hooks: list[ValidatingWebhook] = []
    try:
        for kind in WEBHOOK_KINDS:
            hooks += [hook for one in (await client.list(kind)).items for hook in one.webhooks or ()]
        wanted = [hook for hook in hooks if hook.failure_policy != "Ignore" and hook.client_config is not None]
        if any(does_our_work(hook) for hook in wanted) and await _is_ours(client):
            wanted = [hook for hook in wanted if not does_our_work(hook)]
        return {hook.name: why for hook in wanted if (why := await _hindrance(client, hook))}
    except ApiError as error:
        if error.code not in (403, 404):
            raise
        return {}


async def _hindrance(client: HttpClient, hook: ValidatingWebhook) -> str:
    reference = hook.client_config.service if hook.client_config is not None else None
    if reference is None:
        return ""
    try:
        service = await client.get(SERVICES, reference.name, reference.namespace)
    except NotFound:
        return hindrance(reference, None, ())
    return hindrance(reference, service, (await client.list(PODS, reference.namespace)).items)


async def _is_ours(client: HttpClient) -> bool:
    """Whether the API server is ours, which does not ask Volcano's own webhooks."""
    _, _, body = await client.request("GET", "/version")
    return b"+unisono." in body


class _Asked:
    """Lists, and what of them the user may not see: kinds as a whole, or outside of one namespace."""

    def __init__(self, client: HttpClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.unseen: set[str] = set()
        self.within = ""

    async def objects(self, kind: Any, fields: str = "", *, within: bool = False) -> list[Any]:
        found = await self._try(kind, None, fields)
        if found is None and within:
            found = await self._try(kind, self._namespace, fields)
            if found is not None:
                self.within = self._namespace
        if found is None:
            self.unseen.add(kind.plural)
        return found or []

    async def _try(self, kind: Any, namespace: str | None, fields: str) -> list[Any] | None:
        """The objects; None where the user may not list them, and none where there is no such kind."""
        try:
            return (await self._client.list(kind, namespace, field_selector=fields)).items
        except ApiError as error:
            if error.code not in (403, 404):
                raise
            return None if error.code == 403 else []


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
