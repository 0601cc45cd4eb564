"""Brings PodGroups of ``scheduling.k8s.io`` to the scheduler, and what becomes of them back into their status.

The scheduler knows one kind of gang. For each of Kubernetes' PodGroups with pods of our schedulers there is a
PodGroup of ours of the same name, which it controls; pods that name theirs in ``spec.schedulingGroup`` belong to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from unisono.api.annotations import handed_down
from unisono.api.base import Condition, ObjectMeta
from unisono.api.conditions import find_condition, is_true
from unisono.api.core import Pod, PodSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.groups.topology import HyperNode, NetworkTopologySpec
from unisono.api.groups.workload import SCHEDULED, WorkloadPodGroup
from unisono.api.keys import LAST_APPLIED, POD_QUEUE
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import HYPER_NODES, NAMESPACES, POD_GROUPS, PODS
from unisono.api.selecting import DEFAULT_QUEUE, pod_group_of
from unisono.api.times import rfc3339
from unisono.controllers import owners, pod_facts
from unisono.controllers.objects import delete_seen, to_json
from unisono.controllers.owners import index, inherited_annotations, inherited_labels, owned_by
from unisono.controllers.pod_groups import PENDING, foreign_group, sum_usage
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.kube.controller import Context, Controller

# What a PodGroup of ``scheduling.k8s.io`` becomes for the scheduler, and what its status says (pure).

_PREFIX = "volcano.sh/"
# A server collects what belongs to an owner of a version that it serves.
_VERSION = WORKLOAD_POD_GROUPS.api_version


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
            owner_references=[replace(owned_by(WORKLOAD_POD_GROUPS, group), api_version=group.api_version or _VERSION)],
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
    if not group.spec.is_disrupted_whole or not is_scheduled(group):
        return needed
    return max(needed, sum(1 for pod in pods if pod.spec.node_name and pod_facts.is_active(pod)))


def is_scheduled(group: WorkloadPodGroup) -> bool:
    """Whether the group has had its minimum on nodes; this is never taken back."""
    return any(is_true(group.status.conditions, name) for name in SCHEDULED)


def told_conditions(
    group: WorkloadPodGroup, ours: PodGroup | None, pods: Iterable[Pod], refused: str, now: float
) -> list[Condition]:
    """All conditions, with how far it is under the names of each version; empty where there is nothing new to say.

    Args:
        group: Kubernetes' PodGroup.
        ours: the scheduler's PodGroup for it, None while there is none.
        pods: those of the group.
        refused: why there can be no PodGroup for it; empty where there can.
        now: seconds since 1970.

    """
    if is_scheduled(group):
        return []
    gang = group.spec.scheduling_policy.gang
    needed = 1 if gang is None else max(1, gang.min_count or 1)
    placed = sum(1 for pod in pods if pod.spec.node_name and not pod_facts.has_failed(pod))
    if placed >= needed:
        status, reason, message = "True", "Scheduled", ""
    elif refused or (message := _why(ours)):
        status, reason, message = "False", "Unschedulable", refused or message
    else:
        return []
    told = [each for each in group.status.conditions or () if each.type not in SCHEDULED]
    others = len(told)
    for name in SCHEDULED:
        before = find_condition(group.status.conditions, name)
        if before is not None and (before.status, before.reason, before.message or "") == (status, reason, message):
            told.append(before)
            continue
        since = before.last_transition_time if before is not None and before.status == status else None
        told.append(
            Condition(
                type=name,
                status=status,
                observed_generation=group.metadata.generation,
                last_transition_time=since or rfc3339(now),
                reason=reason,
                message=message,
            )
        )
    known = group.status.conditions or ()
    return [] if all(any(each is old for old in known) for each in told[others:]) else told


def _why(ours: PodGroup | None) -> str:
    """What the scheduler says of a gang that waits."""
    for each in (ours.status.conditions if ours else None) or ():
        if each.type == "Unschedulable" and each.status == "True":
            return each.message or ""
    return ""


def topology_key(group: WorkloadPodGroup) -> str:
    """The label whose values are the domains that the group must be in one of; empty without one."""
    constraints = group.spec.scheduling_constraints
    keys = (constraints.topology if constraints else None) or []
    return keys[0].key if keys else ""


def _topology(group: WorkloadPodGroup) -> NetworkTopologySpec | None:
    """One domain of the label: HyperNodes that are discovered by labels have the label as the name of their tier."""
    key = topology_key(group)
    return NetworkTopologySpec(mode="hard", highest_tier_name=key) if key else None


def _smallest_gang(pods: Sequence[Pod], members: int) -> list[tuple[PodSpec, int]]:
    """The specs of the first pods; where fewer exist, the missing ones count as those that do."""
    # A minimum is the user's number: it is not walked pod by pod.
    whole, rest = divmod(members, len(pods))
    return [(pod.spec, whole + (at < rest)) for at, pod in enumerate(pods)]


_GROUP_INDEX = "scheduling-group"
# Seconds until a PodGroup that is being deleted, or was refused, is looked at again.
_DELETION_RETRY = 1.0
_REFUSED_RETRY = 30.0


class KubernetesGroupController(Controller):
    """Makes a PodGroup of ours for each of Kubernetes'."""

    name = "kubernetes-pg-controller"

    def __init__(self, scheduler_names: Collection[str]) -> None:
        """Only groups with pods whose ``schedulerName`` is one of these are looked at."""
        self._scheduler_names = frozenset(scheduler_names)

    def setup(self, context: Context) -> None:
        """Watch both kinds of groups, and pods that name one; a server without the feature serves none."""
        self._client, self._clock = context.client, context.clock
        self._theirs = context.watch(WORKLOAD_POD_GROUPS, optional=True)
        self._pods = context.watch(PODS, self._named)
        index(self._pods, _GROUP_INDEX, self._named)
        self._groups = context.watch(POD_GROUPS, _mirrored)
        self._namespaces = context.informer(NAMESPACES)
        self._hyper_nodes = context.watch(HYPER_NODES, self._bounded)

    async def reconcile(self, key: str) -> float | None:
        """Make our PodGroup if it is not there, then say in theirs how far it is."""
        theirs = self._theirs.get(key)
        if theirs is None or theirs.metadata.deletion_timestamp:
            return None
        pods = self._pods.by_index(_GROUP_INDEX, key)
        if not pods:
            return None
        pods = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
        ours, refused, retry = self._groups.get(key), self._unknown_domain(theirs), None
        if refused:  # without the tier the bound would not hold
            if ours is not None and theirs.metadata.uid in owners.controller_uids(ours):
                await delete_seen(self._client, POD_GROUPS, ours)
        elif ours is None:
            refused = await self._create(mirror(theirs, pods, self._queue(theirs)))
            retry = _REFUSED_RETRY if refused else None
        elif ours.metadata.deletion_timestamp:
            retry = _DELETION_RETRY
        elif theirs.metadata.uid not in owners.controller_uids(ours):
            refused, retry = foreign_group(ours), _REFUSED_RETRY
        else:
            await self._follow(ours, min_member(theirs, pods))
        conditions = told_conditions(theirs, ours, pods, refused, self._clock.time())
        if conditions:
            status = {"conditions": [to_json(each) for each in conditions]}
            meta = theirs.metadata
            patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
            with contextlib.suppress(NotFound):
                await self._client.patch(
                    WORKLOAD_POD_GROUPS, meta.name, patch, namespace=meta.namespace, subresource="status"
                )
        return retry

    async def _create(self, wanted: PodGroup) -> str:
        """Why the server refuses the PodGroup; empty where it does not."""
        try:
            await self._client.create(POD_GROUPS, wanted)
        except AlreadyExists:  # the watch tells whose it is
            return ""
        except (Conflict, Unavailable):
            raise
        except ApiError as error:
            return f"its PodGroup was refused: {error}"
        return ""

    async def _follow(self, ours: PodGroup, members: int) -> None:
        if ours.spec.min_member == members:
            return
        patch = {"metadata": {"uid": ours.metadata.uid}, "spec": {"minMember": members}}
        with contextlib.suppress(NotFound):
            await self._client.patch(POD_GROUPS, ours.metadata.name, patch, namespace=ours.metadata.namespace)

    def _named(self, pod: Pod) -> Iterator[str]:
        """Keys of the group that a pod of ours names."""
        group = pod.spec.scheduling_group
        if group is None or not group.pod_group_name or pod.spec.scheduler_name not in self._scheduler_names:
            return
        key = f"{pod.metadata.namespace}/{group.pod_group_name}"
        if pod_group_of(pod) == key:
            yield key

    def _unknown_domain(self, group: WorkloadPodGroup) -> str:
        """Why the group's topology cannot be kept; empty where it can, and once the group has its nodes."""
        key = topology_key(group)
        if not key or is_scheduled(group) or any(each.spec.tier_name == key for each in self._hyper_nodes.items()):
            return ""
        return (
            f"no HyperNode has tierName {key}, so the domains of the topology {key} are not known: let them be "
            "discovered from this label, or create them"
        )

    def _bounded(self, _: HyperNode) -> list[str]:
        return [group.key for group in self._theirs.items() if topology_key(group)]

    def _queue(self, group: WorkloadPodGroup) -> str:
        namespace = self._namespaces.get(group.metadata.namespace or "")
        return (namespace.metadata.annotations or {}).get(POD_QUEUE, "") if namespace else ""


def _mirrored(group: PodGroup) -> list[str]:
    return [group.key]
