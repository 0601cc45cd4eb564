"""Brings groups of ``scheduling.k8s.io`` to the scheduler, and what becomes of them back into their status.

The scheduler knows one kind of gang. For each tree of Kubernetes' groups with pods of our schedulers, which may be one
PodGroup alone, there is a PodGroup of ours with the name of the group at the top, which controls it. Pods that name a
PodGroup at the top in ``spec.schedulingGroup`` belong to it; those of deeper ones get its name in the annotation that
tells a pod's gang.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from unisono.api.annotations import handed_down
from unisono.api.base import Condition, ObjectMeta
from unisono.api.conditions import find_condition
from unisono.api.core import Pod, PodSpec
from unisono.api.defaulting.kubeflow import default_pod_group
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from unisono.api.groups.topology import HyperNode
from unisono.api.groups.workload import CompositePodGroup, WorkloadPodGroup
from unisono.api.keys import GROUP_NAME, LAST_APPLIED, POD_QUEUE
from unisono.api.kind import Kind
from unisono.api.kind_families import COMPOSITE_POD_GROUPS, WORKLOAD_POD_GROUPS
from unisono.api.kinds import HYPER_NODES, NAMESPACES, POD_GROUPS, PODS
from unisono.api.selecting import DEFAULT_QUEUE, pod_group_of
from unisono.api.times import rfc3339
from unisono.controllers import owners
from unisono.controllers.objects import delete_seen, to_json
from unisono.controllers.owners import for_group, index, inherited_annotations, inherited_labels, owned_by
from unisono.controllers.pod_groups import PENDING, foreign_group, sum_usage
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.jobkinds.kubernetes_groups import Group, Node, bound_of, policies_of, top_of, tree_of, wrong_layout
from unisono.kube.controller import Context, Controller


def mirror(tree: Node, pods: Sequence[Pod], namespace_queue: str) -> PodGroup:
    """The PodGroup of ours for a tree of Kubernetes' groups.

    Args:
        tree: of Kubernetes' groups.
        pods: those that name one of them and are ours to schedule, at least one, oldest first.
        namespace_queue: default queue of the namespace, empty for the cluster's.
    """
    group, spec = tree.group, tree.spec
    notes, first = group.metadata.annotations or {}, pods[0]
    handed = {key: value for key, value in notes.items() if for_group(key) and key != LAST_APPLIED}
    of_pod = first.metadata.annotations or {}
    kind = _kind_of(tree)
    owner = owned_by(kind, group)
    # A server collects what belongs to an owner of a version that it serves.
    owner.api_version = group.api_version or kind.api_version
    return PodGroup(
        metadata=ObjectMeta(
            name=group.metadata.name,
            namespace=group.metadata.namespace,
            labels=inherited_labels({**(first.metadata.labels or {}), **(group.metadata.labels or {})}) or None,
            annotations=handed_down(notes, inherited_annotations(dict(of_pod)) | handed) or None,
            owner_references=[owner],
        ),
        spec=PodGroupSpec(
            **_followed(tree),
            queue=notes.get(POD_QUEUE) or of_pod.get(POD_QUEUE) or namespace_queue or DEFAULT_QUEUE,
            priority_class_name=spec.priority_class_name or first.spec.priority_class_name,
            network_topology=bound_of(tree),
        ),
        status=PodGroupStatus(phase=PENDING),
    )


def _followed(tree: Node) -> dict[str, Any]:
    """What of our PodGroup's spec changes with the groups and their pods."""
    smallest = tree.smallest()
    usage = sum_usage(each for node, least in smallest for each in _smallest_gang(node.pods, least))
    return {
        "min_member": sum(least for _, least in smallest) or 1,
        "min_resources": {**usage} or None,
        "sub_group_policy": policies_of(tree) or None,
    }


def told_conditions(node: Node, ours: PodGroup | None, refused: str, now: float, *, invalid: bool) -> list[Condition]:
    """All conditions, with how far it is under the names of each version; empty where there is nothing new to say.

    Args:
        node: one of Kubernetes' groups.
        ours: the scheduler's PodGroup for its tree, None while there is none.
        refused: why there can be no PodGroup for it; empty where there can.
        now: seconds since 1970.
        invalid: the tree is none that can be scheduled.
    """
    if node.is_scheduled:
        return []
    if node.placed >= node.spec.minimum:
        status, reason, message = "True", "Scheduled", ""
    elif refused or (message := _why(ours)):
        status, reason, message = "False", "Invalid" if invalid else "Unschedulable", refused or message
    else:
        return []
    updated = [each for each in node.conditions if each.type not in node.condition_types]
    others = len(updated)
    for name in node.condition_types:
        before = find_condition(list(node.conditions), name)
        if before is not None and (before.status, before.reason, before.message or "") == (status, reason, message):
            updated.append(before)
            continue
        since = before.last_transition_time if before is not None and before.status == status else None
        updated.append(
            Condition(
                type=name,
                status=status,
                observed_generation=node.group.metadata.generation,
                last_transition_time=since or rfc3339(now),
                reason=reason,
                message=message,
            )
        )
    return [] if all(any(each is old for old in node.conditions) for each in updated[others:]) else updated


def _kind_of(node: Node) -> Kind[Any]:
    return COMPOSITE_POD_GROUPS if node.is_composite else WORKLOAD_POD_GROUPS


def _why(ours: PodGroup | None) -> str:
    """What the scheduler says of a gang that waits."""
    for each in (ours.status.conditions if ours else None) or ():
        if each.type == "Unschedulable" and each.status == "True":
            return each.message or ""
    return ""


def _smallest_gang(pods: Sequence[Pod], members: int) -> list[tuple[PodSpec, int]]:
    """The specs of the first pods; where fewer exist, the missing ones count as those that do."""
    if not pods:
        return []
    # A minimum is the user's number: it is not walked pod by pod.
    whole, rest = divmod(members, len(pods))
    return [(pod.spec, whole + (at < rest)) for at, pod in enumerate(pods)]


_GROUP_INDEX, _PARENT_INDEX = "scheduling-group", "parent-composite-group"
# Seconds until a PodGroup that is being deleted, or was refused, is looked at again.
_DELETION_RETRY = 1.0
_REFUSED_RETRY = 30.0


class KubernetesGroupController(Controller):
    """Makes a PodGroup of ours for each tree of Kubernetes' groups."""

    name = "kubernetes-pg-controller"

    def __init__(self, scheduler_names: Collection[str]) -> None:
        """Only groups with pods whose ``schedulerName`` is one of these are looked at."""
        self._scheduler_names = frozenset(scheduler_names)

    def setup(self, context: Context) -> None:
        """Watch all kinds of groups, and pods that name one; a server without the feature serves none."""
        self._theirs = context.watch(WORKLOAD_POD_GROUPS, self._top, optional=True)
        # Where one goes, the groups below it are those of a missing parent.
        self._composites = context.watch(
            COMPOSITE_POD_GROUPS, lambda group: [group.key, *self._top(group)], optional=True
        )
        index(self._theirs, _PARENT_INDEX, _parent)
        index(self._composites, _PARENT_INDEX, _parent)
        self._pods = context.watch(PODS, self._tops_of_pod)
        index(self._pods, _GROUP_INDEX, self._named)
        self._groups = context.watch(POD_GROUPS, _mirrored)
        self._namespaces = context.informer(NAMESPACES)
        self._hyper_nodes = context.watch(HYPER_NODES, self._bounded)

    async def reconcile(self, key: str) -> float | None:
        """Make our PodGroup if it is not there, then say in theirs how far they are."""
        top: Group | None = self._composites.get(key)
        if top is None and (orphans := self._parts(key)):
            await self._tell_orphans(key, orphans)
            return None
        if top is None or not self._is_top(top, key):
            top = self._theirs.get(key)
        if top is None or top.metadata.deletion_timestamp or not self._is_top(top, key):
            return None
        tree = tree_of(top, self._parts, self._pods_of)
        pods = sorted((pod for node in tree.walk() for pod in node.pods), key=_by_age)
        if not pods:
            return None
        wrong = wrong_layout(tree)
        ours, refused, retry = self._groups.get(key), wrong or self._unknown_domain(tree), None
        if refused:  # without the tier the bound would not hold
            if ours is not None and top.metadata.uid in owners.controller_uids(ours):
                await delete_seen(self._client, POD_GROUPS, ours)
        elif ours is None:
            refused = await self._create(mirror(tree, pods, self._queue(top)))
            retry = _REFUSED_RETRY if refused else None
        elif ours.metadata.deletion_timestamp:
            retry = _DELETION_RETRY
        elif top.metadata.uid not in owners.controller_uids(ours):
            refused, retry = foreign_group(ours), _REFUSED_RETRY
        else:
            await self._follow(ours, tree)
        if not refused:
            await self._join(pods, key)
        for node in tree.walk():
            await self._tell(node, ours, refused, invalid=bool(wrong))
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

    async def _follow(self, ours: PodGroup, tree: Node) -> None:
        followed = _followed(tree)
        desired = PodGroup(spec=PodGroupSpec(**followed, queue=ours.spec.queue))
        default_pod_group(desired)
        have, want = to_json(ours.spec), to_json(desired.spec)
        spec = {name: value for name, value in want.items() if have.get(name) != value}
        if not spec:
            return
        if "minResources" in spec:  # a merge patch keeps what it does not name
            stale = set(ours.spec.min_resources or {}) - set(want["minResources"])
            spec["minResources"] = {**dict.fromkeys(stale), **want["minResources"]}
        patch = {"metadata": {"uid": ours.metadata.uid}, "spec": spec}
        with contextlib.suppress(NotFound):
            await self._client.patch(POD_GROUPS, ours.metadata.name, patch, namespace=ours.metadata.namespace)

    async def _join(self, pods: Sequence[Pod], key: str) -> None:
        """Tell pods of deeper groups the gang that they belong to."""
        for pod in pods:
            if pod_group_of(pod) == key:
                continue
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid, "annotations": {GROUP_NAME: key.partition("/")[2]}}}
            with contextlib.suppress(NotFound):
                await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)

    async def _tell(self, node: Node, ours: PodGroup | None, refused: str, *, invalid: bool = False) -> None:
        conditions = told_conditions(node, ours, refused, self._clock.time(), invalid=invalid)
        if not conditions:
            return
        meta, kind = node.group.metadata, _kind_of(node)
        status = {"conditions": [to_json(each) for each in conditions]}
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        with contextlib.suppress(NotFound):
            await self._client.patch(kind, meta.name, patch, namespace=meta.namespace, subresource="status")

    async def _tell_orphans(self, key: str, below: Sequence[Group]) -> None:
        """Say of groups whose parent is missing that they wait for it."""
        why = f"CompositePodGroup {key.partition('/')[2]}, which it names as its parent, does not exist"
        for group in below:
            for node in tree_of(group, self._parts, self._pods_of).walk():
                await self._tell(node, None, why)

    # ---- who belongs to whom

    def _top(self, group: Group) -> list[str]:
        return [top_of(group, self._composites.get)]

    def _is_top(self, group: Group, key: str) -> bool:
        return top_of(group, self._composites.get) == key

    def _parts(self, key: str) -> list[Group]:
        return [*self._composites.by_index(_PARENT_INDEX, key), *self._theirs.by_index(_PARENT_INDEX, key)]

    def _named(self, pod: Pod) -> Iterator[str]:
        """Key of the group that a pod of ours names."""
        group = pod.spec.scheduling_group
        if group is not None and group.pod_group_name and pod.spec.scheduler_name in self._scheduler_names:
            yield f"{pod.metadata.namespace}/{group.pod_group_name}"

    def _tops_of_pod(self, pod: Pod) -> Iterator[str]:
        for key in self._named(pod):
            group = self._theirs.get(key)
            yield from [key] if group is None else self._top(group)

    def _pods_of(self, group: WorkloadPodGroup) -> list[Pod]:
        """Pods that name a group, but for those that an annotation makes members of another gang."""
        gangs = {group.key, *self._top(group)}
        named = self._pods.by_index(_GROUP_INDEX, group.key)
        return sorted((pod for pod in named if pod_group_of(pod) in gangs), key=_by_age)

    # ---- where and for whom

    def _unknown_domain(self, tree: Node) -> str:
        """Why the topology of a group cannot be kept; empty where all can, and once the tree has its nodes."""
        if tree.is_scheduled:
            return ""
        tier_names = {each.spec.tier_name for each in self._hyper_nodes.items()}
        for node in tree.walk():
            key = node.spec.topology_key
            if key and key not in tier_names:
                return (
                    f"no HyperNode has tierName {key}, so the domains of the topology {key} are not known: let them be "
                    "discovered from this label, or create them"
                )
        return ""

    def _bounded(self, _: HyperNode) -> list[str]:
        every: list[Group] = [*self._theirs.items(), *self._composites.items()]
        return [key for group in every if group.spec.topology_key for key in self._top(group)]

    def _queue(self, group: Group) -> str:
        namespace = self._namespaces.get(group.metadata.namespace or "")
        return (namespace.metadata.annotations or {}).get(POD_QUEUE, "") if namespace else ""


def _parent(group: WorkloadPodGroup | CompositePodGroup) -> list[str]:
    name = group.spec.parent_composite_pod_group_name
    return [f"{group.metadata.namespace}/{name}"] if name else []


def _by_age(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def _mirrored(group: PodGroup) -> list[str]:
    return [group.key]
