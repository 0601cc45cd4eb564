"""Keeps the pod groups of ReplicaSets, StatefulSets and Kubernetes' Jobs in step with them.

A group is made when the first pod comes. What its owner says about it may change later, and an owner that wants no pods
needs no group: one that stays would hold its place in the queue, and seem to wait.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from unisono.api import submitters
from unisono.api.core import Pod
from unisono.api.groups.apps import ReplicaSet, StatefulSet
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import POD_QUEUE
from unisono.api.kind import Kind
from unisono.api.kinds import NAMESPACES, POD_GROUPS, PODS
from unisono.api.membership import pod_group_of
from unisono.controllers import owners
from unisono.controllers.indexing import index
from unisono.controllers.objects import delete_seen
from unisono.controllers.patching import contains, to_json
from unisono.controllers.podgroup.decide import handed_down, pod_group_for
from unisono.controllers.workloads.job_decide import finished
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

Workload = ReplicaSet | StatefulSet | BatchJob
_OWNER_INDEX = "controller-uid"
# What a change of the owner changes; the rest of the spec is the user's.
_FOLLOWED = ("minMember", "minResources")
# Seconds until pods that are being deleted are looked for again.
_LEAVING_RETRY = 2.0


class WorkloadGroupController(Controller):
    """Keeps ``podgroup-<uid>`` of the owners of one kind."""

    def __init__(
        self, kind: Kind[ReplicaSet] | Kind[StatefulSet] | Kind[BatchJob], scheduler_names: Collection[str]
    ) -> None:
        """Only owners of pods whose ``schedulerName`` is one of these are looked at."""
        self._kind: Kind[Workload] = kind  # type: ignore[assignment]
        self._scheduler_names = frozenset(scheduler_names)
        self.name = f"pg-{kind.singular_name}-controller"

    def setup(self, context: Context) -> None:
        """Watch the owners."""
        self._client = context.client
        self._owners = context.watch(self._kind, optional=True)
        self._pods = context.informer(PODS)
        index(self._pods, _OWNER_INDEX, owners.controller_keys)
        self._groups = context.informer(POD_GROUPS)
        self._namespaces = context.informer(NAMESPACES)

    async def reconcile(self, key: str) -> float | None:
        """Delete the group of an owner that wants no pods, else bring what the owner says into it."""
        owner = self._owners.get(key)
        if owner is None or owner.metadata.deletion_timestamp:
            return None
        group = self._groups.get(f"{owner.metadata.namespace}/podgroup-{owner.metadata.uid}")
        if group is None or group.metadata.deletion_timestamp:
            return None
        if owner.metadata.uid not in owners.controller_uids(group):
            return None
        pods = self._pods.by_index(_OWNER_INDEX, owners.family(owner))
        if wants_no_pods(owner):
            if not pods:
                await delete_seen(self._client, POD_GROUPS, group)
            return _LEAVING_RETRY if pods and all(pod.metadata.deletion_timestamp for pod in pods) else None
        if isinstance(owner, BatchJob):
            return None
        pod = next((each for each in pods if self._is_ours(each, group)), None)
        if pod is not None:
            author = submitters.handed_down(owner.metadata.annotations, None)
            await self._follow(group, pod_group_for(pod, handed_down(owner), self._queue(pod), author))
        return None

    def _is_ours(self, pod: Pod, group: PodGroup) -> bool:
        return pod.spec.scheduler_name in self._scheduler_names and pod_group_of(pod) == group.key

    def _queue(self, pod: Pod) -> str:
        namespace = self._namespaces.get(pod.metadata.namespace or "")
        return (namespace.metadata.annotations or {}).get(POD_QUEUE, "") if namespace else ""

    async def _follow(self, group: PodGroup, wanted: PodGroup) -> None:
        have, want = to_json(group.spec), to_json(wanted.spec)
        # A merge patch keeps what it does not name: amounts that are no more must be named to go.
        stale = dict.fromkeys(set(group.spec.min_resources or {}) - set(wanted.spec.min_resources or {}))
        spec = {name: want[name] for name in _FOLLOWED if name in want and have.get(name) != want[name]}
        if "minResources" in spec:
            spec["minResources"] = {**stale, **spec["minResources"]}
        notes = to_json(msgspec.structs.replace(wanted.metadata, labels=None)).get("annotations") or {}
        metadata = {"annotations": notes} if not contains(group.metadata.annotations or {}, notes) else {}
        if not spec and not metadata:
            return
        patch = {"metadata": {"uid": group.metadata.uid, **metadata}, "spec": spec}
        try:
            await self._client.patch(POD_GROUPS, group.metadata.name, patch, namespace=group.metadata.namespace)
        except NotFound:
            return


def wants_no_pods(owner: Workload) -> bool:
    """Whether an owner has no replicas, is suspended, or has ended (pods that tell of its end may still be there)."""
    if isinstance(owner, BatchJob):
        return bool(owner.spec.suspend) or finished(owner) is not None
    return not owner.spec.replicas
