"""The PodGroup of a training job: made when it is absent, patched where it follows the job, waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unisono.api.base import Object, ObjectMeta
from unisono.api.core import PodSpec
from unisono.api.keys import LAST_APPLIED
from unisono.api.kind import Kind
from unisono.api.resources import add, pod_requests, to_wire
from unisono.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.controllers.job.pod_group import PENDING
from unisono.controllers.objects import owner_uid
from unisono.controllers.owners import owned_by
from unisono.controllers.patching import contains, merge_diff, to_json
from unisono.controllers.training.plan import Plan

# Fields that follow the job; a queue once given stays, and what others set is left alone.
_FOLLOWED = ("minMember", "minTaskMember", "minResources", "priorityClassName", "networkTopology")
_EXACT = frozenset({"minTaskMember", "minResources"})


def pod_group_for(kind: Kind[Any], job: Object, name: str, spec: PodGroupSpec) -> PodGroup:
    """The pod group of a job; it takes over the job's annotations."""
    annotations = {k: v for k, v in (job.metadata.annotations or {}).items() if k != LAST_APPLIED}
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=job.metadata.namespace,
            annotations=annotations or None,
            owner_references=[owned_by(kind, job)],
        ),
        spec=spec,
        status=PodGroupStatus(phase=PENDING),
    )


def plan_group(plan: Plan, job: Object, wanted: PodGroup, found: PodGroup | None) -> bool:
    """Bring the pod group about; answers whether the gang has been admitted, so that its pods may be made."""
    if found is None:
        plan.create_group = wanted
        return False
    if owner_uid(found) != job.metadata.uid:
        if not found.metadata.deletion_timestamp:
            message = f"pod group {found.key} exists and belongs to something else; delete it to let this job start"
            plan.warn("FailedCreatePodGroup", message, once=found.metadata.uid or "")
        plan.again_within(5.0)
        return False
    if found.metadata.deletion_timestamp:
        return False
    patch = _patch(to_json(found.spec), to_json(wanted.spec))
    if patch:
        plan.patch_group = found.metadata.name, {"spec": patch}
    return is_admitted(found)


def drop_group(plan: Plan, job: Object, found: PodGroup | None) -> bool:
    """Delete the job's pod group if it is there; answers whether it was."""
    if found is None or found.metadata.deletion_timestamp or owner_uid(found) != job.metadata.uid:
        return False
    plan.delete_group = found
    return True


def is_admitted(group: PodGroup) -> bool:
    """Whether the scheduler has let the gang into its queue."""
    return (group.status.phase or PENDING) != PENDING


def sum_requests(parts: Iterable[tuple[PodSpec, int]]) -> dict[str, str]:
    """Requests of so many pods of each spec, as wire quantities."""
    total: dict[str, int] = {}
    for spec, count in parts:
        if count > 0:
            add(total, {name: amount * count for name, amount in pod_requests(spec).items()})
    return to_wire(total)


def _patch(actual: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {}
    for key in _FOLLOWED:
        have, want = actual.get(key), wanted.get(key)
        if want is None:
            if have is not None and key not in ("networkTopology", "minTaskMember"):
                patch[key] = None
        elif key in _EXACT:
            difference = merge_diff(have or {}, want)
            if difference:
                patch[key] = difference
        elif not contains(have, want):
            patch[key] = want
    return patch
