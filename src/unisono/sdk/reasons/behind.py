"""What no scheduler knows of a waiting job: who wrote what its pods ask for, and why what it needs does not come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.kinds import (
    EVENTS,
    LIMIT_RANGES,
    NODE_CHECKS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    RUNTIME_CLASSES,
)
from unisono.api.pod_edits import containers
from unisono.api.verdict import Cause, Verdict
from unisono.errors import ApiError
from unisono.sdk.fixes.owners import Raw, root_of
from unisono.sdk.fixes.pod_specs import claims_of, pod_specs
from unisono.sdk.reasons.machines import machines_for
from unisono.sdk.state.refused import event_time

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient
    from unisono.sdk.reasons.explanation import Explanation

_MOST = 4
"""Objects of one kind that are asked about."""
_NOT_MADE = ("ProvisioningFailed", "NodeCheckNotMade")
"""Reasons of events that say why a volume, or a check of a node, does not come about."""


async def add_what_others_know(client: HttpClient, told: Explanation, item: Raw) -> None:
    """Add to the first verdict a sentence on each object that is behind it, and what groups of machines lack.

    Args:
        client: the server.
        told: what is known so far.
        item: the object in question, as the server sent it.
    """
    if not told.verdicts:
        return
    verdict, root = told.verdicts[0], await root_of(client, item)
    machines = await machines_for(client, verdict, root)
    said = [machines.text] if machines.text else []
    for source in (_defaults, _classes, _claims, _checks):
        try:
            said += [text async for text in source(client, verdict, root)]
        except ApiError:  # users who may read jobs may not read everything
            continue
    if said:
        message = "; ".join((verdict.message.removesuffix("."), *said))
        told.verdicts[0] = msgspec.structs.replace(verdict, message=message)
    told.fixes += machines.fixes


async def _defaults(client: HttpClient, verdict: Verdict, root: Raw) -> AsyncIterator[str]:
    """Requests that a LimitRange gives to containers that state none."""
    unstated = {
        name
        for spec in pod_specs(root)
        for container in containers(spec)
        for name in verdict.need
        if not any(name in (part or {}) for part in (container.get("resources") or {}).values())
    }
    if not unstated:
        return
    for one in (await client.list(LIMIT_RANGES, root["metadata"].get("namespace"))).items:
        for item in one.spec.limits or ():
            given = {**(item.max or {}), **(item.default or {}), **(item.default_request or {})}
            for name in sorted(unstated & given.keys()) if item.type == "Container" else ():
                yield f"LimitRange {one.metadata.name} gives {name} {given[name]} to containers that request none"


async def _classes(client: HttpClient, verdict: Verdict, root: Raw) -> AsyncIterator[str]:
    """Labels that a RuntimeClass has its pods select nodes by, and that no node has."""
    names = {name for spec in pod_specs(root) if (name := spec.get("runtimeClassName"))}
    if verdict.cause != Cause.FILTERS or not names:
        return
    nodes = (await client.list(NODES)).items
    for one in (each for each in (await client.list(RUNTIME_CLASSES)).items if each.metadata.name in names):
        selector = (one.scheduling.node_selector if one.scheduling is not None else None) or {}
        if selector and not any(selector.items() <= (node.metadata.labels or {}).items() for node in nodes):
            labels = " and ".join(f"{key}={value}" for key, value in sorted(selector.items()))
            yield f"RuntimeClass {one.metadata.name} has its pods select nodes by {labels}"


async def _claims(client: HttpClient, verdict: Verdict, root: Raw) -> AsyncIterator[str]:
    """Why a provisioner has made no volume."""
    names = claims_of(root) if verdict.cause == Cause.FILTERS else ()
    if not names:
        return
    namespace = root["metadata"].get("namespace")
    claims = (await client.list(PERSISTENT_VOLUME_CLAIMS, namespace)).items
    for one in [each for each in claims if each.metadata.name in names and not each.spec.volume_name][:_MOST]:
        async for text in _warned(client, PERSISTENT_VOLUME_CLAIMS.kind, one.metadata):
            yield f"claim {one.metadata.name}: {text}"


async def _checks(client: HttpClient, verdict: Verdict, root: Raw) -> AsyncIterator[str]:
    """Why a NodeCheck does not make its pods."""
    from unisono.engine.plugins.node_checks import reason_of

    checks = (await client.list(NODE_CHECKS)).items if verdict.reasons else ()
    for one in [each for each in checks if reason_of(each.metadata.name).text in verdict.reasons][:_MOST]:
        async for text in _warned(client, NODE_CHECKS.kind, one.metadata):
            yield f"NodeCheck {one.metadata.name}: {text}"


async def _warned(client: HttpClient, kind: str, meta: Any) -> AsyncIterator[str]:
    """The newest of the warnings that say why something is not made."""
    params = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={meta.name}"}
    status, _, body = await client.request("GET", EVENTS.path(meta.namespace or "default"), params=params)
    if status < 300:
        warnings = [*_of(msgspec.json.decode(body).get("items") or (), meta.uid)]
        if warnings:
            yield max(warnings, key=event_time)["message"]


def _of(events: Iterable[dict[str, Any]], uid: str | None) -> Iterator[dict[str, Any]]:
    for event in events:
        about: Mapping[str, Any] = event.get("involvedObject") or {}
        if event.get("reason") in _NOT_MADE and event.get("message") and about.get("uid") in (None, "", uid):
            yield event
