"""Brings PodGroups of ``scheduling.k8s.io`` to the scheduler, and what becomes of them back into their status.

The scheduler knows one kind of gang. For each of Kubernetes' PodGroups with pods of our schedulers there is a
PodGroup of ours of the same name, which it controls; pods that name theirs in ``spec.schedulingGroup`` belong to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.groups.topology import HyperNode
from unisono.api.groups.workload import WorkloadPodGroup
from unisono.api.keys import POD_QUEUE
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import HYPER_NODES, NAMESPACES, POD_GROUPS, PODS
from unisono.api.membership import pod_group_of
from unisono.controllers import owners
from unisono.controllers.indexing import index
from unisono.controllers.objects import delete_seen
from unisono.controllers.patching import to_json
from unisono.controllers.pod_groups import foreign_group
from unisono.controllers.podgroup.kubernetes_decide import (
    conditions_with,
    is_scheduled,
    min_member,
    mirror,
    scheduled_condition,
    topology_key,
)
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from unisono.kube.controller import Context, Controller

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
        condition = scheduled_condition(theirs, ours, pods, refused, self._clock.time())
        if condition is not None:
            told = {"conditions": [to_json(each) for each in conditions_with(theirs, condition)]}
            meta = theirs.metadata
            patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": told}
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
