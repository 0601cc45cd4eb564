"""Why an object has neither pods nor PodGroups: its fields, its newest warning, or that no controller acts on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.kind_families import BATCH_CRON_JOBS, CRON_JOBS
from unisono.api.kinds import EVENTS
from unisono.api.times import parse_time, rfc3339
from unisono.jobkinds.registry import handed_to
from unisono.sdk.refusals import event_time

if TYPE_CHECKING:
    from unisono.kube.http import HttpClient

# Fields that say how many pods an object wants.
_SIZES = ("replicas", "parallelism")
# Kinds that make nothing before their time has come.
_TIMED = frozenset({CRON_JOBS.resource, BATCH_CRON_JOBS.resource})
# Controllers write a status within this time, also when many objects come at once.
_UNSEEN_SECONDS = 15.0
# Objects between the one in question and its pods that are asked about one by one.
_MOST_PARTS = 10


def paused_by(item: Mapping[str, Any]) -> str:
    """The field that keeps a rollout from beginning; empty when none does."""
    return "spec.paused" if (item.get("spec") or {}).get("paused") is True else ""


def empty_by(item: Mapping[str, Any]) -> str:
    """The field by which an object wants no pods; empty when it wants some."""
    spec = item.get("spec") or {}
    return next((f"spec.{name}" for name in _SIZES if spec.get(name) == 0 and spec.get(name) is not None), "")


def unattended(resource: str, item: Mapping[str, Any], now: float) -> str:
    """That no controller has written anything about an object for too long; empty where one has.

    Args:
        resource: of the object, such as ``jobs.batch.volcano.sh``.
        item: the object as the server sent it.
        now: seconds since the epoch.

    """
    if resource in _TIMED or _says_something(item.get("status")):
        return ""
    try:
        age = now - parse_time((item.get("metadata") or {}).get("creationTimestamp") or "")
    except ValueError:
        return ""
    if age < _UNSEEN_SECONDS:
        return ""
    return f"no controller has acted on it in {age:.0f} s: its status is empty; see whether the controllers run"


def _says_something(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_says_something(each) for each in value.values())
    return bool(value)


def next_run(resource: str, item: Mapping[str, Any], now: float) -> str:
    """When an object that makes jobs at set times makes its next one; empty for others, and where that is not known.

    Args:
        resource: of the object.
        item: the object as the server sent it.
        now: seconds since the epoch.

    """
    if resource not in _TIMED:
        return ""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    since = status.get("lastScheduleTime") or (item.get("metadata") or {}).get("creationTimestamp") or ""
    try:
        zone = parse_zone(spec["timeZone"]) if spec.get("timeZone") else UTC
        found = parse_schedule(spec.get("schedule") or "").upcoming(parse_time(since), now, zone)
    except ValueError:
        return ""
    when = f"the next one at {rfc3339(found)}" if found is not None else "and there is no such time"
    return f"it has no pods: it makes a job at the times of its schedule, {spec['schedule']}, {when}"


def suspended_part(parts: Sequence[Any]) -> str:
    """``what it has made, nightly-1, is suspended (spec.suspend)``; empty where nothing is."""
    for each in parts:
        if getattr(getattr(each, "spec", None), "suspend", None) is True:
            return f"what it has made, {each.metadata.name}, is suspended (spec.suspend)"
    return ""


async def newest_warning(client: HttpClient, objects: Sequence[Any]) -> str:
    """What was last warned of among the objects' events; empty where nothing was, or events may not be read."""
    found: list[tuple[str, str]] = []
    for each in objects[:_MOST_PARTS]:
        meta = each.metadata
        params = {"fieldSelector": f"involvedObject.uid={meta.uid}"}
        status, _, body = await client.request("GET", EVENTS.path(meta.namespace), params=params)
        if status >= 300:
            return ""
        for event in msgspec.json.decode(body).get("items") or ():
            if event.get("type") == "Warning" and event.get("message"):
                found.append((event_time(event), event["message"]))
    return max(found, default=("", ""))[1]


async def not_begun(
    client: HttpClient, resource: str, item: Mapping[str, Any], parts: Sequence[Any], now: float
) -> str:
    """Why nothing of an object could be scheduled yet; empty where nothing is known to be wrong.

    Args:
        client: the server.
        resource: of the object.
        item: the object as the server sent it; it has no pods and no PodGroups.
        parts: the object and what stands between it and the pods that it should have.
        now: seconds since the epoch, by the server's clock.

    """
    field, manager = handed_to(item)
    if manager:
        return f"{field} hands it to {manager}, and no controller here acts on it"
    return await newest_warning(client, parts) or unattended(resource, item, now)
