"""``scheduling.k8s.io``: Workload, Kubernetes' own PodGroup, and CompositePodGroup, from v1alpha2 (1.36) to v1beta1.

A field that a later version says otherwise is read in both forms, whatever version an object names.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import Base, Condition, Int32, Object, Required

SCHEDULED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
"""Types of the condition that says whether the group's pods have got their nodes: of 1.37, and of 1.36."""
COMPOSITE_SCHEDULED = ("CompositePodGroupInitiallyScheduled",)
"""The same of a group of groups."""
MOST_LEVELS = 4
"""Levels of a tree of groups, that of the PodGroups included."""
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


class _Group(Base):
    """What templates, PodGroups and groups of groups have in common.

    Attributes:
        scheduling_constraints: topology.
        disruption_mode: ``{"single": {}}`` (the default) lets single members be preempted, ``{"all": {}}`` only all at
            once; v1alpha2 has the words ``Pod`` and ``PodGroup``.
        priority_class_name: priority of the group.
        priority: the value of that class.
        preemption_policy: ``Never`` or ``PreemptLowerPriority``.
    """

    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: Any = None
    priority_class_name: str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether its members may only be preempted all at once."""
        return self.disruption_mode in ("PodGroup", {"all": {}})

    @property
    def topology_key(self) -> str:
        """The label whose values are the domains that the group must be in one of; empty without one."""
        keys = (self.scheduling_constraints.topology if self.scheduling_constraints else None) or []
        return keys[0].key if keys else ""


class _GroupPolicies(_Group):
    """What a template and a PodGroup have in common.

    Attributes:
        scheduling_policy: basic or gang.
        resource_claims: claims of the whole group.
    """

    scheduling_policy: PodGroupSchedulingPolicy = msgspec.field(default_factory=PodGroupSchedulingPolicy)
    resource_claims: list[PodGroupResourceClaim] | None = None

    @property
    def minimum(self) -> int:
        """Pods that must start together; 1 where each starts on its own."""
        gang = self.scheduling_policy.gang
        return 1 if gang is None else max(1, gang.min_count or 1)


class CompositeGangSchedulingPolicy(Base):
    """At least ``min_group_count`` groups start together, or none."""

    min_group_count: Int32 | None = None


class CompositePodGroupSchedulingPolicy(Base):
    """Exactly one of them."""

    basic: BasicSchedulingPolicy | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class _CompositePolicies(_Group):
    """What a template of a group of groups and such a group have in common.

    Attributes:
        scheduling_policy: basic or gang.
    """

    scheduling_policy: CompositePodGroupSchedulingPolicy = msgspec.field(
        default_factory=CompositePodGroupSchedulingPolicy
    )

    @property
    def minimum(self) -> int:
        """Groups that must start together; 1 where each starts on its own."""
        gang = self.scheduling_policy.gang
        return 1 if gang is None else max(1, gang.min_group_count or 1)


class PodGroupTemplate(_GroupPolicies):
    """A set of pods of a workload, which PodGroups are made after."""

    name: Required = ""


class InnermostCompositeTemplate(_CompositePolicies):
    """A group of groups whose groups are PodGroups.

    Attributes:
        composite_pod_group_templates: there must be none: the tree would be too deep.
    """

    name: Required = ""
    pod_group_templates: list[PodGroupTemplate] | None = None
    composite_pod_group_templates: list[Any] | None = None


class InnerCompositeTemplate(_CompositePolicies):
    """A group of groups within another."""

    name: Required = ""
    pod_group_templates: list[PodGroupTemplate] | None = None
    composite_pod_group_templates: list[InnermostCompositeTemplate] | None = None


class CompositePodGroupTemplate(_CompositePolicies):
    """A group of groups of a workload, which CompositePodGroups are made after."""

    name: Required = ""
    pod_group_templates: list[PodGroupTemplate] | None = None
    composite_pod_group_templates: list[InnerCompositeTemplate] | None = None


class WorkloadSpec(Base):
    """Templates of PodGroups or of groups of them, and the object that makes the pods; both are fixed."""

    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None
    composite_pod_group_templates: list[CompositePodGroupTemplate] | None = None


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
        parent_composite_pod_group_name: the group of groups that it is one of.
        workload_ref: what it was made after; ``pod_group_template_ref`` in v1alpha2.
    """

    parent_composite_pod_group_name: str | None = None
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


class CompositePodGroupSpec(_CompositePolicies):
    """What groups need together; fixed once it is made, but for the minimum of a gang.

    Attributes:
        parent_composite_pod_group_name: the group of groups that it is one of itself.
        workload_ref: what it was made after.
    """

    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadReference | None = None


class CompositePodGroupStatus(Base):
    """The condition of `COMPOSITE_SCHEDULED` has the reasons Scheduled, Unschedulable, SchedulerError and Invalid."""

    conditions: list[Condition] | None = None


class CompositePodGroup(Object):
    """PodGroups, and groups of them, that name it as their parent."""

    spec: CompositePodGroupSpec = msgspec.field(default_factory=CompositePodGroupSpec)
    status: CompositePodGroupStatus = msgspec.field(default_factory=CompositePodGroupStatus)


class JobSchedulingConfiguration(Base):
    """``spec.scheduling`` of a Job of ``batch/v1`` (1.37): of the PodGroup that is made for it.

    Attributes:
        scheduling_policy: basic or gang, whose ``minCount`` is the Job's parallelism where it is absent.
        scheduling_constraints: topology.
        disruption_mode: as of a PodGroup.
        resource_claims: claims that all pods share.
    """

    scheduling_policy: PodGroupSchedulingPolicy | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: Any = None
    resource_claims: list[PodGroupResourceClaim] | None = None
