"""Why an object has neither pods nor PodGroups: its fields, its newest warning, or who keeps it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.cron import parse_schedule, parse_zone
from unisono.api.keys import KEDA_PAUSED, KEDA_PAUSED_REPLICAS
from unisono.api.kind_families import BATCH_CRON_JOBS, CRON_JOBS, HORIZONTAL_POD_AUTOSCALERS, SCALED_OBJECTS
from unisono.api.kinds import EVENTS
from unisono.api.times import parse_time, rfc3339
from unisono.errors import ApiError
from unisono.jobkinds.registry import handed_to
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.operations import patch, patch_of
from unisono.sdk.state.refused import event_time

if TYPE_CHECKING:
    from unisono.api.keda import ScaledObject
    from unisono.api.kind import Kind
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
        next_time = parse_schedule(spec.get("schedule") or "").upcoming(parse_time(since), now, zone)
    except ValueError:
        return ""
    when = f"the next one at {rfc3339(next_time)}" if next_time is not None else "and there is no such time"
    return f"it has no pods: it makes a job at the times of its schedule, {spec['schedule']}, {when}"


def suspended_part(parts: Sequence[Any]) -> str:
    """``what it has made, nightly-1, is suspended (spec.suspend)``; empty where nothing is."""
    for each in parts:
        if getattr(getattr(each, "spec", None), "suspend", None) is True:
            return f"what it has made, {each.metadata.name}, is suspended (spec.suspend)"
    return ""


async def newest_warning(client: HttpClient, objects: Sequence[Any]) -> str:
    """What was last warned of among the objects' events; empty where nothing was, or events may not be read."""
    warnings: list[tuple[str, str]] = []
    for each in objects[:_MOST_PARTS]:
        meta = each.metadata
        params = {"fieldSelector": f"involvedObject.uid={meta.uid}"}
        status, _, body = await client.request("GET", EVENTS.path(meta.namespace), params=params)
        if status >= 300:
            return ""
        for event in msgspec.json.decode(body).get("items") or ():
            if event.get("type") == "Warning" and event.get("message"):
                warnings.append((event_time(event), event["message"]))
    return max(warnings, default=("", ""))[1]


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


@dataclass(frozen=True, slots=True)
class Kept:
    """By whom and by what, and the way out."""

    why: str
    fix: Fix


async def kept_empty(client: HttpClient, item: Mapping[str, Any]) -> Kept | None:
    """What keeps an object, as the server sent it, at zero replicas; None where that is not known."""
    from unisono.controllers.autoscaling.scaled_object import target_of

    meta = item["metadata"]
    for scaled in await _listed(client, SCALED_OBJECTS, meta.get("namespace")):
        version, kind = target_of(scaled)
        if (kind, scaled.spec.scale_target_ref.name) == (item["kind"], meta["name"]) and (
            version is None or version == item["apiVersion"]
        ):
            return _kept(scaled)
    for scaler in await _listed(client, HORIZONTAL_POD_AUTOSCALERS, meta.get("namespace")):
        target = scaler.spec.scale_target_ref
        if (target.kind, target.name, target.api_version) == (item["kind"], meta["name"], item["apiVersion"]):
            return _unscaled(scaler, item)
    return None


async def _listed(client: HttpClient, kind: Kind[Any], namespace: str | None) -> list[Any]:
    try:
        return list((await client.list(kind, namespace)).items)
    except ApiError:  # few users may, and few servers have them
        return []


def _unscaled(scaler: Any, item: Mapping[str, Any]) -> Kept | None:
    """A HorizontalPodAutoscaler leaves what has no replicas as it is."""
    least, name = scaler.spec.min_replicas, scaler.metadata.name
    if least == 0:
        return None
    number = least or 1
    change = {"kind": "SetField", "field": "spec.replicas", "value": number, "tried": False}
    requests = tuple(patch_of(dict(item), {"spec": {"replicas": number}}))
    why = f"HorizontalPodAutoscaler {name} scales nothing that has no replicas"
    return Kept(why, Fix(f"set spec.replicas to {number}", False, change, requests))


def _kept(scaled: ScaledObject) -> Kept | None:
    name, namespace = scaled.metadata.name, scaled.metadata.namespace or ""
    notes = scaled.metadata.annotations or {}
    written = [key for key in (KEDA_PAUSED_REPLICAS, KEDA_PAUSED) if key in notes]
    if written:
        body: dict[str, Any] = {"metadata": {"annotations": dict.fromkeys(written)}}
        change = {"kind": "ResumeScaling", "scaledObject": name, "tried": False}
        text = f"let ScaledObject {name} scale it again: remove its annotation {' and '.join(written)}"
        why = f"ScaledObject {name} keeps it there by its annotation {written[0]}"
    elif not scaled.spec.min_replica_count:
        body = {"spec": {"minReplicaCount": 1}}
        change = {"kind": "KeepReplicas", "scaledObject": name, "tried": False}
        text = f"set minReplicaCount of ScaledObject {name} to 1"
        why = f"ScaledObject {name} keeps it there while none of its triggers is active"
    else:
        return None
    return Kept(why, Fix(text, False, change, (patch(SCALED_OBJECTS, name, body, namespace),)))


# Conditions that ought to be true, besides all whose name ends with Ready, and those that ought not. What others
# mean is not known here.
_OUGHT = frozenset(
    {"Available", "AbleToScale", "ScalingActive", "Active", "Synced", "Healthy", "Accepted", "Established"}
)
_OUGHT_NOT = frozenset({"Failed", "Degraded", "Stalled", "ReplicaFailure"})
_MOST = 3


def has_conditions(item: Mapping[str, Any]) -> bool:
    """Whether the object has conditions as Kubernetes writes them."""
    return bool(_conditions(item))


def complaints(item: Mapping[str, Any]) -> str:
    """``Ready is False: FailedGetScale: deployments.apps "x" not found``; empty where all is well."""
    conditions_by_message: dict[str, list[str]] = {}
    for condition in _conditions(item):
        name, status = str(condition.get("type")), str(condition.get("status"))
        ought = name in _OUGHT or name.endswith("Ready")
        if not (ought and status != "True") and not (name in _OUGHT_NOT and status == "True"):
            continue
        said = ": ".join(filter(None, (str(condition.get("reason") or ""), str(condition.get("message") or ""))))
        conditions_by_message.setdefault(said, []).append(f"{name} is {status}")
    texts = [", ".join(names) + (f": {said}" if said else "") for said, names in conditions_by_message.items()]
    return "; ".join(texts[:_MOST])


def _conditions(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = item.get("status")
    listed = status.get("conditions") if isinstance(status, Mapping) else None
    if not isinstance(listed, list):
        return []
    return [each for each in listed if isinstance(each, Mapping) and "type" in each and "status" in each]
