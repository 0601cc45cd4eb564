"""Gives every plain pod of our schedulers a pod group, for the scheduler knows nothing smaller."""

from __future__ import annotations

from collections.abc import Collection

from unisono.api.core import Pod
from unisono.api.keys import GROUP_NAME, POD_QUEUE
from unisono.api.kinds import NAMESPACES, POD_GROUPS, PODS, find
from unisono.api.scheduling import PodGroup
from unisono.controllers.owners import controller_of
from unisono.controllers.podgroup.decide import INHERITING, group_name, needs_group, pod_group_for
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.controller import Context, Controller

SCHEDULER_NAMES = ("volcano", "unisono")
# Seconds until a group that is being deleted is looked at again.
_VANISHING_RETRY = 1.0


class PodGroupController(Controller):
    """Makes ``podgroup-<uid>`` and writes its name on the pod."""

    name = "pg-controller"

    def __init__(self, scheduler_names: Collection[str] = SCHEDULER_NAMES) -> None:
        """Only pods whose ``schedulerName`` is one of these are looked at."""
        self._scheduler_names = frozenset(scheduler_names)

    def setup(self, context: Context) -> None:
        """Watch pods without a group."""
        self._client = context.client
        self._pods = context.watch(PODS, when=lambda _event, pod, _old: needs_group(pod, self._scheduler_names))
        self._groups = context.informer(POD_GROUPS)
        self._namespaces = context.informer(NAMESPACES)

    async def reconcile(self, key: str) -> float | None:
        """Make the group if it is not there, then name it on the pod."""
        pod = self._pods.get(key)
        if pod is None or not needs_group(pod, self._scheduler_names):
            return None
        meta = pod.metadata
        name = group_name(pod)
        known = self._groups.get(f"{meta.namespace}/{name}")
        if known is None:
            await self._create(pod)
        elif known.metadata.deletion_timestamp:
            return _VANISHING_RETRY
        # With the uid a pod that took over the name is not given the group of its predecessor.
        patch = {"metadata": {"uid": meta.uid, "annotations": {GROUP_NAME: name}}}
        try:
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return None
        return None

    async def _create(self, pod: Pod) -> PodGroup | None:
        namespace = self._namespaces.get(pod.metadata.namespace or "")
        queue = (namespace.metadata.annotations or {}).get(POD_QUEUE, "") if namespace else ""
        group = pod_group_for(pod, await self._owner_annotations(pod), queue)
        try:
            return await self._client.create(POD_GROUPS, group)
        except AlreadyExists:
            # Its name holds the owner's uid, so it was made for this very owner.
            return None

    async def _owner_annotations(self, pod: Pod) -> dict[str, str]:
        """Annotations of the controller, if it is of a kind that hands them down and that this version knows."""
        owner = controller_of(pod)
        if owner is None or owner.kind not in INHERITING:
            return {}
        kind = find(owner.api_version, owner.kind)
        if kind is None:
            return {}
        try:
            found = await self._client.get(kind, owner.name, pod.metadata.namespace)
        except NotFound:
            return {}
        return dict(found.metadata.annotations or {})
