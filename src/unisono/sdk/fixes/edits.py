"""What a verdict's change does to a manifest, one row for each; how kinds say it, the kinds themselves know (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unisono.api.kinds import JOBS
from unisono.api.resources import to_wire
from unisono.engine.changes import OfPods, UseDeviceClass
from unisono.engine.verdict import change_of
from unisono.jobkinds.kind import NoSuchField, by_annotation
from unisono.jobkinds.paths import first, put
from unisono.jobkinds.registry import job_kind_of
from unisono.sdk.fixes import pod_specs
from unisono.sdk.fixes.owners import Edit, Raw
from unisono.sdk.fixes.references import rename, use_queue

_Row = Callable[[Raw, Mapping[str, Any]], None]


def _lower(manifest: Raw, change: Mapping[str, Any]) -> None:
    kind = job_kind_of(manifest)
    (by_annotation if kind is None else kind.fewer)(manifest, change["to"])


def _grow(manifest: Raw, change: Mapping[str, Any]) -> None:
    kind = job_kind_of(manifest)
    if kind is None:
        raise NoSuchField(f"let the {manifest['kind']} have more pods of the role that lacks them")
    kind.grow(manifest, change["count"])


def _use_role(manifest: Raw, change: Mapping[str, Any]) -> None:
    kind = job_kind_of(manifest)
    if kind is None or not kind.role_minimums:
        raise NoSuchField(f"a {manifest['kind']} states no minTaskMember: change that of its PodGroup")
    roles = first(manifest, kind.role_minimums) or {}
    if change["name"] in roles:
        roles[change["instead"]] = roles.pop(change["name"])


def _set_min_resources(manifest: Raw, change: Mapping[str, Any]) -> None:
    kind = job_kind_of(manifest)
    if kind is None or not kind.minimum:
        raise NoSuchField(f"a {manifest['kind']} states no minResources: change those of its PodGroup")
    put(manifest, kind.minimum, (first(manifest, kind.minimum) or {}) | to_wire(change["amounts"]))


def _allow_tier(manifest: Raw, change: Mapping[str, Any]) -> None:
    if (kind := job_kind_of(manifest)) is not None:
        kind.allow_tier(manifest, change["tier"])


def _use_priority(manifest: Raw, change: Mapping[str, Any]) -> None:
    """Pods of a Job of Volcano that name none have that of the job."""
    if (kind := job_kind_of(manifest)) is not None:
        kind.use_priority(manifest, change["priority_class"])
    inherited = JOBS.matches(manifest.get("apiVersion", ""), manifest.get("kind", ""))
    for pod in pod_specs.pod_specs(manifest):
        if not inherited or pod.get("priorityClassName"):
            pod["priorityClassName"] = change["priority_class"]
            pod.pop("priority", None)


def set_field(manifest: Raw, path: str, value: Any) -> None:
    """Set a field, such as ``spec.replicas``; None takes it away."""
    *above, last = path.split(".")
    at = manifest
    for name in above:
        at = at.setdefault(name, {})
    pod_specs.set_field(at, last, value)


_OF_JOBS: Mapping[str, _Row] = {
    "LowerMinAvailable": _lower,
    "SetMinResources": _set_min_resources,
    "UseRole": _use_role,
    "CreatePods": _grow,
    "AllowTier": _allow_tier,
    "UsePriority": _use_priority,
    "UseQueue": lambda body, one: use_queue(body, one["queue"]),
    "SetField": lambda body, one: set_field(body, one["field"], one["value"]),
    "AddAnnotation": lambda body, one: pod_specs.annotate(body, one["key"], one["value"]),
    "UseClaim": lambda body, one: rename(body, one["of"], one["name"], one["instead"]),
}
_OF_PODS: Mapping[str, _Row] = {
    "UseStorageClass": lambda spec, one: pod_specs.use_storage_class(spec, one["storage_class"]),
    "SetPodField": lambda spec, one: pod_specs.set_field(spec, one["field"], one["value"]),
}
"""Of the spec of each pod."""


def edit_of(change: Mapping[str, Any]) -> Edit | None:
    """What a change does to the manifest of the job (of a claim); None for changes of other objects.

    The edit raises `NoSuchField` where the manifest's kind has no such field.
    """
    kind, typed_change = change["kind"], change_of(change)
    if isinstance(typed_change, OfPods):
        more = {name: change[name] for name in ("overheads", "defaults") if name in change}
        return pod_specs.each_pod(lambda spec: typed_change.edit(spec, **more))
    if kind in _OF_PODS:
        return pod_specs.each_pod(lambda spec: _OF_PODS[kind](spec, change))
    if isinstance(typed_change, UseDeviceClass):
        return typed_change.edit
    return (lambda body: _OF_JOBS[kind](body, change)) if kind in _OF_JOBS else None


def all_of(changes: Sequence[Mapping[str, Any]]) -> Edit:
    """One edit that makes all of the changes."""
    edits = [edit for one in changes if (edit := edit_of(one)) is not None]

    def edit_all(body: Raw) -> None:
        for edit in edits:
            edit(body)

    return edit_all
