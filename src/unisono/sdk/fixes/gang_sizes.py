"""What a fix changes where kinds of jobs say what their gang needs, as the kinds themselves say (pure)."""

from __future__ import annotations

from typing import Any

from unisono.api.kinds import JOBS
from unisono.jobkinds.kind import NoSuchField, by_annotation
from unisono.jobkinds.paths import first, put
from unisono.jobkinds.registry import job_kind_of
from unisono.sdk.fixes.pod_specs import Manifest, pod_specs


def lower(manifest: Manifest, to: int) -> None:
    """Let the gang start with ``to`` pods.

    Raises:
        NoSuchField: the kind's gang has all its pods.

    """
    kind = job_kind_of(manifest)
    (by_annotation if kind is None else kind.fewer)(manifest, to)


def grow(manifest: Manifest, by: int) -> None:
    """Have so many more pods.

    Raises:
        NoSuchField: it is not known which of its roles should have them.

    """
    kind = job_kind_of(manifest)
    if kind is None:
        raise NoSuchField(f"let the {manifest['kind']} have more pods of the role that lacks them")
    kind.grow(manifest, by)


def use_role(manifest: Manifest, name: str, instead: str) -> None:
    """Name another role in minTaskMember.

    Raises:
        NoSuchField: the kind states none.

    """
    kind = job_kind_of(manifest)
    if kind is None or not kind.role_minimums:
        raise NoSuchField(f"a {manifest['kind']} states no minTaskMember: change that of its PodGroup")
    roles = first(manifest, kind.role_minimums) or {}
    if name in roles:
        roles[instead] = roles.pop(name)


def set_min_resources(manifest: Manifest, amounts: dict[str, str]) -> None:
    """State other minResources.

    Raises:
        NoSuchField: the kind states none.

    """
    kind = job_kind_of(manifest)
    if kind is None or not kind.minimum:
        raise NoSuchField(f"a {manifest['kind']} states no minResources: change those of its PodGroup")
    put(manifest, kind.minimum, (first(manifest, kind.minimum) or {}) | amounts)


def allow_tier(manifest: Manifest, tier: int) -> None:
    """Let the job, and its sub-groups where they are bounded, span HyperNodes of this tier."""
    if (kind := job_kind_of(manifest)) is not None:
        kind.allow_tier(manifest, tier)


def use_queue(manifest: Manifest, queue: str) -> None:
    """Wait in another queue."""
    if (kind := job_kind_of(manifest)) is not None:
        kind.use_queue(manifest, queue)


def use_priority(manifest: Manifest, name: str) -> None:
    """Have another priority class; pods of a Job of Volcano that name none have that of the job."""
    if (kind := job_kind_of(manifest)) is not None:
        kind.use_priority(manifest, name)
    inherited = JOBS.matches(manifest.get("apiVersion", ""), manifest.get("kind", ""))
    for pod in pod_specs(manifest):
        if inherited and not pod.get("priorityClassName"):
            continue
        pod["priorityClassName"] = name
        pod.pop("priority", None)


def all_annotations(manifest: Manifest) -> list[dict[str, Any]]:
    """Those of the object and of its pod template; may be changed in place."""
    found = [manifest["metadata"].get("annotations") or {}]
    spec = manifest.get("spec") or {}
    template = (spec.get("template") or {}).get("metadata") or {}
    return [*found, template.get("annotations") or {}]
