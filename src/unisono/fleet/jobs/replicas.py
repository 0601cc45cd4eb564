"""Kinds whose replicas a hub divides over members: where their number stands, and what a copy gets (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from unisono.api.annotations import APPLIED, CLUSTER, DISPATCH, DIVISION, HUB, LAST_CLUSTER, MACHINES, ORIGIN_UID
from unisono.api.base import Object
from unisono.api.defaulting.workloads import JOB_UID_LABELS
from unisono.api.keys import LAST_APPLIED
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS
from unisono.controllers.objects import to_json
from unisono.fleet.jobs.copies import OWN_FIELDS, SERVER_FIELDS, without_labels, without_ttl
from unisono.jobkinds.kind import given
from unisono.jobkinds.paths import first
from unisono.jobkinds.registry import job_kind

MOST: Final = 1_000_000
"""Replicas of one workload that are divided."""


def size_field(kind: Kind[Any]) -> str:
    """The field of the spec that says how many pods there are."""
    return _path(kind).removeprefix("spec.")


def replicas_of(kind: Kind[Any], obj: Any) -> int:
    """Pods that a workload asks for."""
    return min(given(first(obj, _path(kind))), MOST)


def _path(kind: Kind[Any]) -> str:
    description = job_kind(kind)
    assert description is not None
    return description.replicas


def recorded(obj: Object) -> dict[str, int]:
    """How a workload was divided last, as its annotation says; empty where that cannot be read."""
    text = (obj.metadata.annotations or {}).get(DIVISION)
    try:
        division = msgspec.json.decode(text or "{}", type=dict[str, int])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: count for name, count in division.items() if 0 < count <= MOST}


def record_text(division: Mapping[str, int]) -> str:
    """The annotation."""
    return msgspec.json.encode(dict(division), order="deterministic").decode()


def copy_with(
    kind: Kind[Any], obj: Object, hub: str, share: int, *, completions: int | None, labels: Mapping[str, str]
) -> Object:
    """The object that a member gets.

    Args:
        kind: one of ``DIVIDED``.
        obj: the hub's object.
        hub: the hub's identity.
        share: replicas that the member gets.
        completions: of a batch Job; None where it says none.
        labels: those that the hub alone gives the member's nodes; what asks for them is met there.
    """
    value = to_json(obj)
    value.pop("status", None)
    meta = {name: each for name, each in value["metadata"].items() if name not in (*SERVER_FIELDS, *OWN_FIELDS)}
    marks = {HUB: hub, ORIGIN_UID: obj.metadata.uid or ""}
    spec = without_ttl(value.get("spec", {}))
    spec = without_labels(spec, labels) if labels else spec
    spec[size_field(kind)] = share
    if completions is not None:
        spec["completions"] = completions
    if kind is BATCH_JOBS and not spec.get("manualSelector"):
        spec = _without_selector(spec)
    template = dict(spec.get("template") or {})
    own = dict(template.get("metadata") or {})
    # Pods are found through the hub by their marks.
    template["metadata"] = {**own, "labels": {**(own.get("labels") or {}), **marks}}
    spec["template"] = template
    hidden = {LAST_APPLIED, DIVISION, MACHINES, CLUSTER, DISPATCH, LAST_CLUSTER, APPLIED}
    annotations = {key: each for key, each in (meta.get("annotations") or {}).items() if key not in hidden}
    annotations[APPLIED] = hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]
    value["metadata"] = {**meta, "labels": {**(meta.get("labels") or {}), **marks}, "annotations": annotations}
    value["spec"] = spec
    member_copy: Object = msgspec.convert(value, kind.struct)
    return member_copy


def changes_of(kind: Kind[Any], wanted: Any, found: Any) -> list[dict[str, Any]]:
    """JSON patch that brings a copy to what it should be; empty where it is.

    Of a batch Job only its size and whether it is suspended can change.
    """
    mark = (wanted.metadata.annotations or {})[APPLIED]
    size = size_field(kind)
    spec, have = to_json(wanted.spec), to_json(found.spec)
    operations: list[dict[str, Any]] = []
    if kind is BATCH_JOBS:
        for name in (size, "suspend"):
            if (spec.get(name) or 0) != (have.get(name) or 0):
                operations.append({"op": "add", "path": f"/spec/{name}", "value": spec.get(name) or False})
    elif (found.metadata.annotations or {}).get(APPLIED) != mark or have.get(size) != spec.get(size):
        operations.append({"op": "replace", "path": "/spec", "value": spec})
        if found.metadata.annotations is None:
            operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
        operations.append({"op": "add", "path": f"/metadata/annotations/{APPLIED.replace('/', '~1')}", "value": mark})
    if not operations:
        return []
    return [{"op": "test", "path": "/metadata/uid", "value": found.metadata.uid}, *operations]


def _without_selector(spec: dict[str, Any]) -> dict[str, Any]:
    """A Job without what its server has made: each member makes its own."""
    template = dict(spec.get("template") or {})
    meta = dict(template.get("metadata") or {})
    meta["labels"] = {key: value for key, value in (meta.get("labels") or {}).items() if key not in JOB_UID_LABELS}
    template["metadata"] = meta
    return {key: value for key, value in spec.items() if key != "selector"} | {"template": template}
