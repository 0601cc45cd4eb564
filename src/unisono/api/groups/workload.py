"""``scheduling.k8s.io``: Workload, and Kubernetes' own PodGroup, from v1alpha2 (1.36) to v1beta1 (1.37).

A field that a later version says otherwise is read in both forms, whatever version an object names.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import Base, Condition, Int32, Object, Required

SCHEDULED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
"""Types of the condition that says whether the group's pods have got their nodes: of 1.37, and of 1.36."""
DISRUPTION_MODES: tuple[Any, ...] = ({"single": {}}, {"all": {}}, "Pod", "PodGroup")


class TypedLocalObjectReference(Base):
    """An object of the same namespace."""

    api_group: str | None = None
    kind: Required = ""
    name: Required = ""


class BasicSchedulingPolicy(Base):
    """Each pod is scheduled on its own."""


class GangSchedulingPolicy(Base):
    """At least ``min_count`` pods start together, or none."""

    min_count: Int32 | None = None


class PodGroupSchedulingPolicy(Base):
    """Exactly one of them."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Base):
    """All pods go to nodes with one and the same value of a label."""

    key: Required = ""


class PodGroupSchedulingConstraints(Base):
    """How close the pods must be; at most one topology constraint."""

    topology: list[TopologyConstraint] | None = None


class PodGroupResourceClaim(Base):
    """A claim that the pods of a group share: one of the two names."""

    name: Required = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _GroupPolicies(Base):
    """What a template and a PodGroup have in common.

    Attributes:
        scheduling_policy: basic or gang.
        scheduling_constraints: topology.
        resource_claims: claims of the whole group.
        disruption_mode: ``{"single": {}}`` (the default) lets single pods be preempted, ``{"all": {}}`` only all at
            once; v1alpha2 has the words ``Pod`` and ``PodGroup``.
        priority_class_name: priority of the group.
        priority: the value of that class.
        preemption_policy: ``Never`` or ``PreemptLowerPriority``.

    """

    scheduling_policy: PodGroupSchedulingPolicy = msgspec.field(default_factory=PodGroupSchedulingPolicy)
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: list[PodGroupResourceClaim] | None = None
    disruption_mode: Any = None
    priority_class_name: str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether its pods may only be preempted all at once."""
        return self.disruption_mode in ("PodGroup", {"all": {}})


class PodGroupTemplate(_GroupPolicies):
    """A set of pods of a workload, which PodGroups are made after."""

    name: Required = ""


class WorkloadSpec(Base):
    """Templates of PodGroups, and the object that makes the pods; both are fixed."""

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None


class Workload(Object):
    """How the pods of a job are to be scheduled: a template, which schedulers do not read."""

    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)


class WorkloadPodGroupTemplateReference(Base):
    """A template of a Workload."""

    workload_name: Required = ""
    pod_group_template_name: Required = ""


class PodGroupTemplateReference(Base):
    """The template that a PodGroup was made after."""

    workload: WorkloadPodGroupTemplateReference | None = None


class WorkloadReference(Base):
    """The Workload and its template that a PodGroup was made after."""

    workload_name: Required = ""
    template_name: Required = ""


class WorkloadPodGroupSpec(_GroupPolicies):
    """What a group of pods needs; fixed once it is made, but for the minimum of a gang.

    Attributes:
        workload_ref: what it was made after; ``pod_group_template_ref`` in v1alpha2.

    """

    workload_ref: WorkloadReference | None = None
    pod_group_template_ref: PodGroupTemplateReference | None = None


class PodGroupResourceClaimStatus(Base):
    """The claim that was made for a group."""

    name: Required = ""
    resource_claim_name: str | None = None


class WorkloadPodGroupStatus(Base):
    """The condition `SCHEDULED` has the reasons Scheduled, Unschedulable and SchedulerError."""

    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodGroupResourceClaimStatus] | None = None


class WorkloadPodGroup(Object):
    """Kubernetes' PodGroup: the pods that name it in ``spec.schedulingGroup``."""

    spec: WorkloadPodGroupSpec = msgspec.field(default_factory=WorkloadPodGroupSpec)
    status: WorkloadPodGroupStatus = msgspec.field(default_factory=WorkloadPodGroupStatus)
