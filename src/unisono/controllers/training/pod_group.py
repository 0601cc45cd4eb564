"""The PodGroup of a training job: made when it is absent, patched where it follows the job, waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.api.annotations import GANG_PARTS
from unisono.api.base import Object, Quantity
from unisono.api.gang_parts import Part, encode_parts
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.kind import Kind
from unisono.controllers.objects import owner_uid
from unisono.controllers.pod_groups import foreign_group, is_admitted, most_requested, pod_group_of_job, spec_patch
from unisono.controllers.training.plan import TrainingPlan
from unisono.jobkinds.kind import PodSet

# Training jobs say nothing of these, or need not: what others set is left alone.
_KEPT = frozenset({"minTaskMember", "networkTopology", "subGroupPolicy"})


@dataclass(frozen=True, slots=True)
class Gang:
    """What the pods of a training job need together before any of them starts.

    Attributes:
        members: pods that must run together.
        parts: what the pods of each role ask for, and how many of them the smallest gang has or come later.
        queue: where the gang waits.
        priority_class: name of the gang's priority class.
        resources: what the author of the job says that the gang needs, in place of what ``parts`` request.
        topology: how close the pods must be.
        together: parts that run at a time, where not all of them do: the gang needs room for the largest of these.

    """

    members: int
    parts: Sequence[Part]
    queue: str
    priority_class: str | None = None
    resources: Mapping[str, Quantity] | None = None
    topology: NetworkTopologySpec | None = None
    together: Sequence[Sequence[Part]] = ()

    def spec(self) -> PodGroupSpec:
        """The same as a PodGroup says it."""
        return PodGroupSpec(
            min_member=self.members,
            queue=self.queue,
            priority_class_name=self.priority_class,
            min_resources={**(self.resources or self._requested())} or None,
            network_topology=self.topology,
        )

    def _requested(self) -> dict[str, str]:
        """Of all that is there at a time: who is let in on less waits later, with all that it holds, for the rest."""
        return most_requested(
            [(part.spec, part.count + part.later) for part in parts] for parts in self.together or (self.parts,)
        )


def part_of(pods: PodSet) -> Part:
    """A pod set as a PodGroup tells it."""
    least = pods.count if pods.least is None else pods.least
    return Part(pods.role, least, pods.count, pods.count if pods.later else 0, pods.spec)


def bring_gang(plan: TrainingPlan, kind: Kind[Any], job: Object, name: str, gang: Gang, found: PodGroup | None) -> bool:
    """Bring the job's PodGroup about: make it, let it follow the job, and wait until the scheduler admits it.

    Args:
        plan: gets the steps, and what the job is told.
        kind: kind of the job.
        job: the job.
        name: name of its PodGroup.
        gang: what the pods need.
        found: the PodGroup of that name, whatever its owner.

    Returns:
        whether the gang has been admitted, so that its pods may be made.

    """
    desired = pod_group_of_job(kind, job, name, gang.spec(), annotations={GANG_PARTS: encode_parts(gang.parts)})
    if found is None:
        plan.create_group = desired
        return False
    if owner_uid(found) != job.metadata.uid:
        if not found.metadata.deletion_timestamp:
            plan.warn("FailedCreatePodGroup", foreign_group(found), once=found.metadata.uid or "")
        plan.again_within(5.0)
        return False
    if found.metadata.deletion_timestamp:
        return False
    patch, notes = spec_patch(found, desired, kept=_KEPT), _parts_patch(found, desired)
    if patch or notes:
        plan.patch_group = found.metadata.name, ({"spec": patch} if patch else {}) | notes
    return is_admitted(found)


def drop_group(plan: TrainingPlan, job: Object, found: PodGroup | None) -> bool:
    """Delete the job's pod group if it is there; answers whether it was."""
    if found is None or found.metadata.deletion_timestamp or owner_uid(found) != job.metadata.uid:
        return False
    plan.delete_group = found
    return True


def _parts_patch(found: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    have, want = ((group.metadata.annotations or {}).get(GANG_PARTS) for group in (found, wanted))
    return {"metadata": {"annotations": {GANG_PARTS: want}}} if have != want else {}
