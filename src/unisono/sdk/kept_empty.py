"""Objects that want no pods because a ScaledObject keeps them at none: to change their own field would be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.api.keys import KEDA_PAUSED, KEDA_PAUSED_REPLICAS
from unisono.api.kind_families import SCALED_OBJECTS
from unisono.errors import ApiError
from unisono.sdk.fixes.fix import Fix
from unisono.sdk.fixes.operations import patch

if TYPE_CHECKING:
    from unisono.api.keda import ScaledObject
    from unisono.kube.http import HttpClient


@dataclass(frozen=True, slots=True)
class Kept:
    """By whom and by what, and the way out."""

    why: str
    fix: Fix


async def kept_empty(client: HttpClient, item: Mapping[str, Any]) -> Kept | None:
    """Who keeps an object, as the server sent it, at no replicas; None where nobody is known to."""
    from unisono.controllers.autoscaling.scaled_object import target_of

    meta = item["metadata"]
    try:
        listed = (await client.list(SCALED_OBJECTS, meta.get("namespace"))).items
    except ApiError:  # few users may, and few servers have them
        return None
    for scaled in listed:
        version, kind = target_of(scaled)
        if (kind, scaled.spec.scale_target_ref.name) == (item["kind"], meta["name"]) and (
            version is None or version == item["apiVersion"]
        ):
            return _kept(scaled)
    return None


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
