"""``scheduling.volcano.sh``: PodGroup and Queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from unisono.api import base
from unisono.api.groups.topology import NetworkTopologySpec

PodGroupPhase = Annotated[
    str, Meta(extra_json_schema={"enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]})
]
QueueState = Annotated[str, Meta(extra_json_schema={"enum": ["Open", "Closed", "Closing", "Unknown"]})]


class SubGroupKey(base.Base):
    """One label of the form in which earlier versions named them.

    Attributes:
        label_key: the label.
    """

    label_key: str | None = None


class SubGroupPolicySpec(base.Base):
    """A part of a pod group that is a gang of its own.

    Attributes:
        name: for jobs the task's name.
        label_selector: the pods that the policy covers.
        match_label_keys: labels whose values split these pods into subgroups.
        match_policy: the same as earlier versions of Volcano named them; counts where ``match_label_keys`` is absent.
        sub_group_size: pods per subgroup.
        pod_group_name: a PodGroup of ``scheduling.k8s.io`` whose pods are one subgroup; in place of labels.
        parent: the policy that these subgroups are part of. A policy that others name has no pods of its own: its
            ``min_sub_groups`` counts the subgroups below it, and its topology binds all their pods together.
        min_sub_groups: subgroups that the gang needs.
        network_topology: topology constraint of each subgroup.
    """

    name: base.LongName | None = None
    label_selector: base.LabelSelector | None = None
    match_label_keys: list[str] | None = None
    match_policy: list[SubGroupKey] | None = None
    sub_group_size: base.Positive | None = None
    min_sub_groups: base.Natural | None = None
    network_topology: NetworkTopologySpec | None = None
    pod_group_name: base.LongName | None = None
    parent: base.LongName | None = None

    @property
    def splitting_keys(self) -> tuple[str, ...]:
        """Labels whose values split the pods of the policy into subgroups."""
        if self.match_label_keys is not None:
            return tuple(self.match_label_keys)
        return tuple(each.label_key for each in self.match_policy or () if each.label_key)


MOST_LEVELS: Final = 8
"""So deep policies of one gang may be nested: what is decided about one goes through all that are above it."""


def policies_above(name: str | None, parents: Mapping[str | None, str | None]) -> list[str | None]:
    """The policies of a gang that are above one, from the nearest on, each once; ``MOST_LEVELS`` of them at most.

    Args:
        name: of the policy.
        parents: what each policy says, by its name.
    """
    nearest_first: list[str | None] = []
    above = parents.get(name)
    while above in parents and above is not None and above not in nearest_first and len(nearest_first) < MOST_LEVELS:
        nearest_first.append(above)
        above = parents.get(above)
    return nearest_first


class PodGroupSpec(base.Base):
    """What a gang needs before any of it starts.

    Attributes:
        min_member: pods that must run together.
        min_task_member: the same by task.
        queue: where the gang waits.
        priority_class_name: priority of the gang.
        min_resources: resources of the smallest gang, in quota-style names.
        network_topology: how close the pods must be.
        sub_group_policy: gangs within the gang.
    """

    min_member: base.Natural | None = None
    min_task_member: dict[str, base.Int32] | None = None
    queue: (
        Annotated[str, Meta(extra_json_schema={"maxLength": 253, "pattern": base.NAME_PATTERN, "default": "default"})]
        | None
    ) = None
    priority_class_name: base.LongName | None = None
    min_resources: base.ResourceList | None = None
    network_topology: NetworkTopologySpec | None = None
    sub_group_policy: list[SubGroupPolicySpec] | None = None


class PodGroupCondition(base.Base):
    """Types are Unschedulable and Scheduled."""

    type: str | None = None
    status: str | None = None
    transition_id: str | None = msgspec.field(default=None, name="transitionID")
    last_transition_time: base.Time | None = None
    reason: str | None = None
    message: str | None = None


class PodGroupStatus(base.Base):
    """State of a gang; the scheduler writes it.

    Attributes:
        phase: Pending until admitted, then Inqueue, Running, Completed; Unknown when only a part runs.
        running: pods that run.
        succeeded: pods that succeeded.
        failed: pods that failed.
    """

    phase: PodGroupPhase | None = None
    conditions: list[PodGroupCondition] | None = None
    running: base.Natural | None = None
    succeeded: base.Natural | None = None
    failed: base.Natural | None = None


class PodGroup(base.Object):
    """Pods that are scheduled together or not at all."""

    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class ClusterSpec(base.Base):
    """A further cluster that a queue may use."""

    name: str | None = None
    weight: base.Int32 | None = None
    capacity: base.ResourceList | None = None


class Guarantee(base.Base):
    """Resources reserved for a queue."""

    resource: base.ResourceList | None = None


class NodeGroupAffinity(base.Base):
    """Node groups that a queue's pods must or should run on."""

    required_during_scheduling_ignored_during_execution: list[str] | None = None
    preferred_during_scheduling_ignored_during_execution: list[str] | None = None


class NodeGroupAntiAffinity(base.Base):
    """Node groups that a queue's pods must not or should not run on."""

    required_during_scheduling_ignored_during_execution: list[str] | None = None
    preferred_during_scheduling_ignored_during_execution: list[str] | None = None


class QueueAffinity(base.Base):
    """Node groups of a queue."""

    node_group_affinity: NodeGroupAffinity | None = None
    node_group_anti_affinity: NodeGroupAntiAffinity | None = None


class QueueSpec(base.Base):
    """How much a queue may use and how it shares.

    Attributes:
        weight: share among sibling queues (proportion).
        capability: hard upper limit.
        reclaimable: may other queues take back what this one borrowed.
        extend_clusters: further clusters; jobs of the queue are forwarded.
        guarantee: resources reserved for the queue.
        affinity: node groups.
        type: free text.
        parent: parent queue; root when absent.
        deserved: the queue's share (capacity).
        priority: higher goes first and is reclaimed later.
        dequeue_strategy: "fifo" stops at the first job that does not fit, "traverse" goes on.
    """

    weight: (
        Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 1, "maximum": 65535, "default": 1})] | None
    ) = None
    capability: base.ResourceList | None = None
    reclaimable: bool | None = None
    extend_clusters: list[ClusterSpec] | None = None
    guarantee: Guarantee | None = None
    affinity: QueueAffinity | None = None
    type: base.LongName | None = None
    parent: base.ObjectName | None = None
    deserved: base.ResourceList | None = None
    priority: base.Natural | None = None
    dequeue_strategy: (
        Annotated[str, Meta(extra_json_schema={"enum": ["fifo", "traverse"], "default": "traverse"})] | None
    ) = None


class Reservation(base.Base):
    """Nodes and resources reserved for a queue."""

    nodes: list[str] | None = None
    resource: base.ResourceList | None = None


class QueueStatus(base.Base):
    """State of a queue.

    Attributes:
        state: Open, Closing (closed with work left), Closed or Unknown.
        allocated: what pods of the queue and of its children use.
        reservation: nodes and resources reserved for the queue.
    """

    state: QueueState | None = None
    unknown: base.Natural | None = None
    pending: base.Natural | None = None
    running: base.Natural | None = None
    inqueue: base.Natural | None = None
    completed: base.Natural | None = None
    reservation: Reservation | None = None
    allocated: base.ResourceList | None = None


class Queue(base.Object):
    """Where jobs wait, and the share of the cluster that they wait for."""

    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)
