"""The PodGroup of a training job: made when it is absent, patched where it follows the job, waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unisono.api.base import Object
from unisono.api.core import PodSpec
from unisono.api.fields import Quantity
from unisono.api.kind import Kind
from unisono.api.scheduling import PodGroup, PodGroupSpec
from unisono.api.topology import NetworkTopologySpec
from unisono.controllers.objects import owner_uid
from unisono.controllers.patching import contains, merge_diff, to_json
from unisono.controllers.pod_groups import foreign_group, is_admitted, pod_group_of_job, sum_requests
from unisono.controllers.training.plan import Plan

# Fields that follow the job; a queue once given stays, and what others set is left alone.
_FOLLOWED = ("minMember", "minTaskMember", "minResources", "priorityClassName", "networkTopology")
_EXACT = frozenset({"minTaskMember", "minResources"})


@dataclass(frozen=True, slots=True)
class Gang:
    """What the pods of a training job need together before any of them starts.

    Attributes:
        members: pods that must run together.
        parts: pods of the smallest gang, so many of each spec.
        queue: where the gang waits.
        priority_class: name of the gang's priority class.
        resources: what the author of the job says that the gang needs, in place of what ``parts`` request.
        topology: how close the pods must be.

    """

    members: int
    parts: Iterable[tuple[PodSpec, int]]
    queue: str
    priority_class: str | None = None
    resources: Mapping[str, Quantity] | None = None
    topology: NetworkTopologySpec | None = None

    def spec(self) -> PodGroupSpec:
        """The same as a PodGroup says it."""
        return PodGroupSpec(
            min_member=self.members,
            queue=self.queue,
            priority_class_name=self.priority_class,
            min_resources={**(self.resources or sum_requests(self.parts))} or None,
            network_topology=self.topology,
        )


def bring_gang(plan: Plan, kind: Kind[Any], job: Object, name: str, gang: Gang, found: PodGroup | None) -> bool:
    """Bring the job's PodGroup about: make it, let it follow the job, and wait until the scheduler admits it.

    Args:
        plan: gets the steps, and what the job is told.
        kind: kind of the job.
        job: the job.
        name: name of its PodGroup.
        gang: what the pods need.
        found: the PodGroup of that name, whoever owns it.

    Returns:
        whether the gang has been admitted, so that its pods may be made.

    """
    wanted = pod_group_of_job(kind, job, name, gang.spec())
    if found is None:
        plan.create_group = wanted
        return False
    if owner_uid(found) != job.metadata.uid:
        if not found.metadata.deletion_timestamp:
            plan.warn("FailedCreatePodGroup", foreign_group(found), once=found.metadata.uid or "")
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
