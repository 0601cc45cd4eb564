"""What a PodGroup of ``scheduling.k8s.io`` becomes for the scheduler, and what its status says (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unisono.api.base import Condition, ObjectMeta
from unisono.api.conditions import find_condition, is_true
from unisono.api.core import Pod, PodSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.groups.workload import SCHEDULED, WorkloadPodGroup
from unisono.api.keys import LAST_APPLIED, POD_QUEUE
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.membership import DEFAULT_QUEUE
from unisono.api.submitters import handed_down
from unisono.api.times import rfc3339
from unisono.controllers import pod_facts
from unisono.controllers.keys import inherited_annotations, inherited_labels
from unisono.controllers.owners import owned_by
from unisono.controllers.pod_groups import PENDING, sum_usage

_PREFIX = "volcano.sh/"
_WHOLE = "PodGroup"


def mirror(group: WorkloadPodGroup, pods: Sequence[Pod], namespace_queue: str) -> PodGroup:
    """The PodGroup of ours for one of Kubernetes'.

    Args:
        group: Kubernetes' PodGroup.
        pods: those that name it and are ours to schedule, at least one, oldest first.
        namespace_queue: default queue of the namespace, empty for the cluster's.

    """
    notes, first = group.metadata.annotations or {}, pods[0]
    handed = {key: value for key, value in notes.items() if key.startswith(_PREFIX) and key != LAST_APPLIED}
    of_pod = first.metadata.annotations or {}
    members = min_member(group, pods)
    return PodGroup(
        metadata=ObjectMeta(
            name=group.metadata.name,
            namespace=group.metadata.namespace,
            labels=inherited_labels({**(first.metadata.labels or {}), **(group.metadata.labels or {})}) or None,
            annotations=handed_down(notes, inherited_annotations(dict(of_pod)) | handed) or None,
            owner_references=[owned_by(WORKLOAD_POD_GROUPS, group)],
        ),
        spec=PodGroupSpec(
            min_member=members,
            queue=notes.get(POD_QUEUE) or of_pod.get(POD_QUEUE) or namespace_queue or DEFAULT_QUEUE,
            priority_class_name=group.spec.priority_class_name or first.spec.priority_class_name,
            min_resources={**sum_usage(_smallest_gang(pods, members))} or None,
            network_topology=_topology(group),
        ),
        status=PodGroupStatus(phase=PENDING),
    )


def min_member(group: WorkloadPodGroup, pods: Iterable[Pod]) -> int:
    """Pods that must run together.

    Where the group can only be disrupted as a whole, these are all that have a node once it has been scheduled: the
    scheduler takes none out of a gang's minimum.
    """
    gang = group.spec.scheduling_policy.gang
    needed = 1 if gang is None else max(1, gang.min_count or 1)
    if group.spec.disruption_mode != _WHOLE or not is_scheduled(group):
        return needed
    return max(needed, sum(1 for pod in pods if pod.spec.node_name and pod_facts.is_active(pod)))


def is_scheduled(group: WorkloadPodGroup) -> bool:
    """Whether the group has had its minimum on nodes; this is never taken back."""
    return is_true(group.status.conditions, SCHEDULED)


def scheduled_condition(
    group: WorkloadPodGroup, ours: PodGroup | None, pods: Iterable[Pod], refused: str, now: float
) -> Condition | None:
    """The condition ``PodGroupScheduled`` as kube-scheduler words it; None where there is nothing new to say.

    Args:
        group: Kubernetes' PodGroup.
        ours: the scheduler's PodGroup for it, None while there is none.
        pods: those of the group.
        refused: why there can be no PodGroup for it; empty where there can.
        now: seconds since 1970.

    """
    if is_scheduled(group):
        return None
    gang = group.spec.scheduling_policy.gang
    needed = 1 if gang is None else max(1, gang.min_count or 1)
    placed = sum(1 for pod in pods if pod.spec.node_name and not pod_facts.has_failed(pod))
    if placed >= needed:
        status, reason, message = "True", "Scheduled", ""
    elif refused or (message := _why(ours)):
        status, reason, message = "False", "Unschedulable", refused or message
    else:
        return None
    before = find_condition(group.status.conditions, SCHEDULED)
    if before is not None and (before.status, before.reason, before.message or "") == (status, reason, message):
        return None
    since = before.last_transition_time if before is not None and before.status == status else None
    return Condition(
        type=SCHEDULED,
        status=status,
        observed_generation=group.metadata.generation,
        last_transition_time=since or rfc3339(now),
        reason=reason,
        message=message,
    )


def conditions_with(group: WorkloadPodGroup, condition: Condition) -> list[Condition]:
    """The group's conditions with this one instead of the one of its type."""
    return [*(each for each in group.status.conditions or () if each.type != condition.type), condition]


def _why(ours: PodGroup | None) -> str:
    """What the scheduler says of a gang that waits."""
    for each in (ours.status.conditions if ours else None) or ():
        if each.type == "Unschedulable" and each.status == "True":
            return each.message or ""
    return ""


def topology_key(group: WorkloadPodGroup) -> str:
    """The label whose values are the domains that the group must be in one of; empty without one."""
    constraints = group.spec.scheduling_constraints
    found = (constraints.topology if constraints else None) or []
    return found[0].key if found else ""


def _topology(group: WorkloadPodGroup) -> NetworkTopologySpec | None:
    """One domain of the label: HyperNodes that are discovered by labels have the label as the name of their tier."""
    key = topology_key(group)
    return NetworkTopologySpec(mode="hard", highest_tier_name=key) if key else None


def _smallest_gang(pods: Sequence[Pod], members: int) -> list[tuple[PodSpec, int]]:
    """The specs of the first pods; where fewer exist, the missing ones count as those that do."""
    # A minimum is the user's number: it is not walked pod by pod.
    whole, rest = divmod(members, len(pods))
    return [(pod.spec, whole + (at < rest)) for at, pod in enumerate(pods)]
