"""Why one job waits, its events, and what the viewer may do about it; all asked with the viewer's credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.groups.resource_metrics import POD_METRICS
from unisono.api.kinds import COMMANDS, EVENTS, POD_GROUPS, PODS
from unisono.api.quantity import QuantityError
from unisono.api.resources import add, resource_list
from unisono.dashboard.live.configuration import may, may_carry_out
from unisono.dashboard.views.explanation import event_rows, explanation_view, fix_id
from unisono.dashboard.views.table import amounts_text
from unisono.dashboard.views.why import EventRow, ExplanationView
from unisono.errors import ApiError, NotFound
from unisono.sdk.fixes.owners import read
from unisono.sdk.jobs.control import job_kind_of
from unisono.sdk.reasons.explaining import Explanation, NothingToExplain, explain_group, explain_owner, explain_pod

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient

# Events of a namespace that are looked through for those of one job.
_MOST_EVENTS = 2000


async def explain(client: HttpClient, kind: Kind[Any], namespace: str, name: str) -> Explanation:
    """What the SDK knows of an object.

    Raises:
        NotFound: there is none, or the viewer may not see it.
        NothingToExplain: objects of that kind have no pods.
        ApiError: the server cannot answer.
    """
    obj = await client.get(kind, name, namespace)
    title = f"{kind.singular_name}/{name}"
    if kind is PODS:
        return await explain_pod(client, obj, title)
    item = await read(client, kind, name, namespace)
    if item is None:
        raise NotFound(f'{kind.resource} "{name}" not found')
    if kind is POD_GROUPS:
        return await explain_group(client, obj.metadata, item, title)
    return await explain_owner(client, kind.resource, kind, obj, item, title)


async def explanation_of(client: HttpClient, kind: Kind[Any], namespace: str, name: str) -> ExplanationView:
    """The same for the page, with what of it the viewer may carry out; a problem is part of the answer."""
    try:
        explanation = await explain(client, kind, namespace, name)
        allowed = {
            fix_id(fix): await asyncio.gather(*(may_carry_out(client, each) for each in fix.operations))
            for fix in explanation.fixes
        }
    except ApiError as error:
        return ExplanationView(known=True, problem=error.message)
    except NothingToExplain as error:
        return ExplanationView(known=True, problem=str(error))
    return explanation_view(explanation, allowed)


async def events_of(client: HttpClient, namespace: str, uids: Collection[str]) -> list[EventRow]:
    """Events of objects, the newest first; none where the viewer may not read events."""
    params = {"limit": str(_MOST_EVENTS)}
    if len(uids) == 1:
        params["fieldSelector"] = f"involvedObject.uid={next(iter(uids))}"
    try:
        status, _, body = await client.request("GET", EVENTS.path(namespace), params=params)
    except ApiError:
        return []
    if status >= 300:
        return []
    return event_rows(msgspec.json.decode(body).get("items") or (), uids)


async def usage_of(client: HttpClient, namespace: str, pods: Collection[str]) -> dict[str, str]:
    """What pods use now, by name; nothing where it is not measured, or the viewer may not see it."""
    try:
        measured = (await client.list(POD_METRICS, namespace)).items if pods else []
    except ApiError:
        return {}
    usage_by_pod = {}
    for each in measured:
        if each.metadata.name in pods:
            used: dict[str, int] = {}
            for container in each.containers or ():
                try:
                    add(used, resource_list(container.usage))
                except QuantityError:
                    continue
            usage_by_pod[each.metadata.name] = amounts_text(used)
    return usage_by_pod


async def actions_of(client: HttpClient, kind: Kind[Any], namespace: str, name: str) -> list[str]:
    """What the viewer may do with a job: ``suspend``, ``resume``, ``cancel``, ``delete``.

    Nothing while the server cannot say it.
    """
    try:
        return await _actions_of(client, kind, namespace, name)
    except ApiError:
        return []


async def _actions_of(client: HttpClient, kind: Kind[Any], namespace: str, name: str) -> list[str]:
    actions = []
    job_kind = job_kind_of(kind)
    if job_kind is not None:
        by_command = job_kind.control != "flag"
        allowed = await (
            may(client, "create", COMMANDS, namespace) if by_command else may(client, "patch", kind, namespace, name)
        )
        if allowed:
            actions += ["cancel"] if job_kind.control == "parts" else ["suspend", "resume"]
            if job_kind.control == "commands":
                actions.append("cancel")
    if await may(client, "delete", kind, namespace, name):
        actions.append("delete")
    return actions
