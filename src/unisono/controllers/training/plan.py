"""Plans of training kinds: what is wanted done, and the PodGroup that every kind of them has (pure)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unisono.api.annotations import GANG_PARTS
from unisono.api.base import Condition, Object, Quantity
from unisono.api.conditions import find_condition
from unisono.api.core import Pod, Service
from unisono.api.gang_parts import Part, encode_parts
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.kind import Kind
from unisono.controllers.objects import SLICE, owner_uid
from unisono.controllers.plan import BasePlan
from unisono.controllers.pod_groups import (
    foreign_group,
    is_admitted,
    most_requested,
    pod_group_of_job,
    spec_patch,
    waits_suspended,
)
from unisono.jobkinds.kind import PodSet

# What a decision about a training job wants done besides what all kinds want; its conditions and keys.


@dataclass(slots=True)
class TrainingPlan(BasePlan):
    """Steps in order: annotations, status, notices, then objects, the pod group, Services, pods, and the job's own end.

    Attributes:
        annotations: of the job itself, to merge; None as a value removes one.
        delete_services: Services of pods to delete.
        create_services: Services of pods to make.
        create_pods: make the pods, in order; each is built when its turn has come.
        delete_job: the job's time is over.
    """

    annotations: dict[str, str | None] = field(default_factory=dict)
    delete_services: list[Service] = field(default_factory=list)
    create_services: list[Service] = field(default_factory=list)
    create_pods: list[Callable[[], Pod]] = field(default_factory=list)
    delete_job: bool = False

    @property
    def full(self) -> bool:
        """Whether as much is to be made as one look makes: the rest waits for the next look, which comes at once."""
        full = len(self.create_pods) >= SLICE or len(self.create_services) >= SLICE
        if full:
            self.again_within(0.0)
        return full


# Conditions of ``meta.k8s.io/v1``: one entry per type, in the order in which the types were first set.


def set_condition(
    conditions: Iterable[Condition] | None, type: str, status: str, reason: str, message: str, now: str
) -> list[Condition]:
    """The list with one condition set; the time of transition changes with the status only.

    Args:
        conditions: the list as it was; it is not changed.
        type: type of the condition.
        status: "True" or "False".
        reason: one word.
        message: one sentence.
        now: time in RFC 3339.
    """
    old = list(conditions or ())
    same = find_condition(old, type)
    since = same.last_transition_time if same is not None and same.status == status else now
    entry = Condition(type=type, status=status, reason=reason, message=message, last_transition_time=since)
    if same is None:
        return [*old, entry]
    return [entry if each is same else each for each in old]


# A key pair with which the pods of one job log in to each other.


def new_keys() -> dict[str, str]:
    """``ssh-privatekey`` and ``ssh-publickey`` of a new ECDSA key (P-521), as a Secret's data holds them."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return {
        "ssh-privatekey": base64.b64encode(private).decode(),
        "ssh-publickey": base64.b64encode(public + b"\n").decode(),
    }


# The PodGroup of a training job: made when it is absent, patched where it follows the job, waited for.

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


def suspend_group(plan: TrainingPlan, job: Object, found: PodGroup | None) -> None:
    """Delete the pod group of a suspended job, unless that waits for the job to be released."""
    if found is None or not waits_suspended(found):
        drop_group(plan, job, found)


def drop_group(plan: TrainingPlan, job: Object, found: PodGroup | None) -> bool:
    """Delete the job's pod group if it is there; answers whether it was."""
    if found is None or found.metadata.deletion_timestamp or owner_uid(found) != job.metadata.uid:
        return False
    plan.delete_group = found
    return True


def _parts_patch(found: PodGroup, wanted: PodGroup) -> dict[str, Any]:
    have, want = ((group.metadata.annotations or {}).get(GANG_PARTS) for group in (found, wanted))
    return {"metadata": {"annotations": {GANG_PARTS: want}}} if have != want else {}
