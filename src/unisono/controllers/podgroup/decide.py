"""Which pod group a plain pod gets: a pure function of the pod and of its owner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from unisono.api.annotations import LICENSES
from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.core import Pod
from unisono.api.groups.apps import ReplicaSet
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import GROUP_MIN_MEMBER, NETWORK_TOPOLOGY_HIGHEST_TIER, NETWORK_TOPOLOGY_MODE, POD_QUEUE
from unisono.api.kinds import PODS
from unisono.api.selecting import DEFAULT_QUEUE, controller_of, pod_group_of
from unisono.api.times import rfc3339
from unisono.controllers import owners, pod_facts
from unisono.controllers.objects import to_json
from unisono.controllers.owners import owned_by, whole_number
from unisono.controllers.pod_groups import PENDING, sum_usage
from unisono.jobkinds.kind import JobKind

KUBERNETES_SCHEDULER = "default-scheduler"
# Replicas of the Deployment, on its ReplicaSets.
_DESIRED = "deployment.kubernetes.io/desired-replicas"
# A group of a LeaderWorkerSet: a leader and its workers, in StatefulSets of their own.
LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-key"
LWS_SIZE = "leaderworkerset.sigs.k8s.io/size"
_MODES = frozenset({"hard", "soft"})


def needs_group(pod: Pod, scheduler_names: Collection[str]) -> bool:
    """Whether the pod is ours to schedule, and in no pod group.

    Where we serve the name of Kubernetes' own scheduler as well, a pod of that name that has a node before it has a
    group was placed by somebody else: it is in no queue, and is never evicted for others.
    """
    if pod.spec.scheduler_name not in scheduler_names or pod.metadata.deletion_timestamp:
        return False
    if pod.spec.scheduler_name == KUBERNETES_SCHEDULER and pod.spec.node_name:
        return False
    return not pod_group_of(pod)


def group_name(pod: Pod) -> str:
    """``podgroup-<uid>`` of the pod's controller, or of the pod: replicas of one owner share a group.

    Leader and workers of a LeaderWorkerSet have different owners, and share ``podgroup-<group key>``.
    """
    lws = (pod.metadata.labels or {}).get(LWS_GROUP)
    if lws:
        return f"podgroup-{lws}"
    owner = controller_of(pod)
    return f"podgroup-{owner.uid if owner else pod.metadata.uid}"


def pod_group_for(
    pod: Pod, owner_annotations: dict[str, str], namespace_queue: str, author: Mapping[str, str] | None = None
) -> PodGroup:
    """The pod group of a plain pod.

    Args:
        pod: the first pod of the group.
        owner_annotations: annotations of the pod's controller, empty when it hands none down.
        namespace_queue: default queue of the pod's namespace, empty for the cluster's.
        author: what the server has written on its outermost owner about who submitted it.
    """
    annotations = pod.metadata.annotations or {}
    members = _members(pod, owner_annotations)
    handed = {k: v for k, v in owner_annotations.items() if owners.for_group(k)}
    if LICENSES in annotations:  # of a pod that is its own job
        handed.setdefault(LICENSES, annotations[LICENSES])
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(pod),
            namespace=pod.metadata.namespace,
            labels=owners.inherited_labels(pod.metadata.labels or {}) or None,
            annotations={**handed, **owners.inherited_annotations(annotations), **(author or {})} or None,
            owner_references=_owners(pod),
        ),
        spec=PodGroupSpec(
            min_member=members,
            queue=annotations.get(POD_QUEUE) or namespace_queue or DEFAULT_QUEUE,
            priority_class_name=pod.spec.priority_class_name,
            min_resources={**sum_usage([(pod.spec, members)])} or None,
            network_topology=topology(annotations),
        ),
        status=PodGroupStatus(phase=PENDING),
    )


def whole_name(owner: Object) -> str:
    """Name of the group of all pods of an object, whoever makes them."""
    return f"podgroup-{owner.metadata.uid}"


def is_of_leader_worker_set(pod: Pod) -> bool:
    """Whether the pod's group is that of a leader and its workers."""
    return bool((pod.metadata.labels or {}).get(LWS_GROUP))


def group_of_all(group: PodGroup, pod: Pod, kind: JobKind, owner: Object) -> PodGroup:
    """The group of a pod as that of all pods of an object.

    What is made later, such as Spark's executors, counts in minResources: who is let in on less waits later for the
    rest, with all that it holds. The gang needs no more than what is there from the start.

    Args:
        group: as the pod alone would have it.
        pod: the first one.
        kind: of the object.
        owner: the object.
    """
    sets = list(kind.pods(owner))
    members = sum(each.count if each.least is None else each.least for each in sets)
    named = (pod.metadata.annotations or {}).get(POD_QUEUE) or next(iter(kind.queues_of(owner)), "")
    spec = msgspec.structs.replace(
        group.spec,
        min_member=members or 1,
        queue=named or group.spec.queue,
        min_resources={**sum_usage((each.spec, each.count) for each in sets)} or group.spec.min_resources,
    )
    reference = owned_by(kind.kind, owner)
    meta = msgspec.structs.replace(group.metadata, name=whole_name(owner), owner_references=[reference])
    return msgspec.structs.replace(group, metadata=meta, spec=spec)


def not_scheduled(pod: Pod, reason: str, message: str, now: float) -> list[dict[str, Any]] | None:
    """The pod's conditions with ``PodScheduled`` false for this reason; None where they say so already."""
    before = pod_facts.condition(pod, "PodScheduled")
    if before is not None and (before.status, before.reason, before.message) == ("False", reason, message):
        return None
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    condition["lastTransitionTime"] = rfc3339(now)
    if before is not None and before.status == "False" and before.last_transition_time:
        condition["lastTransitionTime"] = before.last_transition_time
    return [*(to_json(each) for each in pod.status.conditions or () if each.type != "PodScheduled"), condition]


def handed_down(owner: Any) -> dict[str, str]:
    """Annotations of a pod's controller.

    While a Deployment replaces its pods, a ReplicaSet gets them step by step, and each step waits until the one before
    it is ready: its pods cannot wait for more than it is given.
    """
    notes = dict(owner.metadata.annotations or {})
    number, whole = whole_number(notes.get(GROUP_MIN_MEMBER)), whole_number(notes.get(_DESIRED))
    given = owner.spec.replicas if isinstance(owner, ReplicaSet) else None
    if number is not None and whole is not None and given and given < min(number, whole):
        notes[GROUP_MIN_MEMBER] = str(given)
    return notes


def min_member(owner_annotations: dict[str, str]) -> int:
    """Pods that must run together; 1 unless the owner names a number that is not negative."""
    number = whole_number(owner_annotations.get(GROUP_MIN_MEMBER))
    return 1 if number is None else number


def _members(pod: Pod, owner_annotations: dict[str, str]) -> int:
    """As ``min_member``; a LeaderWorkerSet's pods carry the size of their group."""
    size = whole_number((pod.metadata.annotations or {}).get(LWS_SIZE))
    is_in_lws = (pod.metadata.labels or {}).get(LWS_GROUP) and size is not None
    if is_in_lws and GROUP_MIN_MEMBER not in owner_annotations:
        return max(1, size or 0)
    return min_member(owner_annotations)


def topology(annotations: dict[str, str]) -> NetworkTopologySpec | None:
    """The network topology that the pod's annotations ask for; a wrong mode counts as hard, a wrong tier as none."""
    mode, tier = annotations.get(NETWORK_TOPOLOGY_MODE), annotations.get(NETWORK_TOPOLOGY_HIGHEST_TIER)
    if mode is None and tier is None:
        return None
    lowered = (mode or "").lower()
    return NetworkTopologySpec(mode=lowered if lowered in _MODES else "hard", highest_tier_allowed=whole_number(tier))


def _owners(pod: Pod) -> list[OwnerReference]:
    """The pod's own owners if one of them controls it, so that the group outlives its first pod; else the pod."""
    if controller_of(pod) is not None:
        return list(pod.metadata.owner_references or ())
    return [owned_by(PODS, pod)]
