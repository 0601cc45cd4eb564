"""Asks the cluster autoscaler for nodes, for gangs that name a provisioning class and wait for room."""

from __future__ import annotations

from unisono.api.core import Pod
from unisono.api.groups.autoscaling import (
    CLASS,
    CLASS_OF_GROUP,
    CONSUMES,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    ProvisioningRequest,
)
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.times import parse_time
from unisono.controllers import owners
from unisono.controllers.indexing import index
from unisono.controllers.node_scaling.waiting import CAUSES, PATIENCE, POD_INDEX, groups_of, is_pending, verdict_of
from unisono.controllers.objects import create_once
from unisono.controllers.provisioning.decide import next_attempt, request_for
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

ATTEMPTS = 3
_REQUEST_INDEX = "pod-group-of-request"
_LOOK_AGAIN = 10.0


class ProvisioningController(Controller):
    """One request at a time for each gang, and a new one when it has failed, up to three."""

    name = "provisioning-controller"
    workers = 4

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on the PodGroups."""
        self._recorder = recorder

    def setup(self, context: Context) -> None:
        """Watch the gangs that name a class, and the requests where a cluster has them."""
        self._client, self._clock = context.client, context.clock
        self._groups = context.watch(POD_GROUPS, when=lambda _event, group, _old: bool(_class_of(group)))
        self._requests = context.watch(
            PROVISIONING_REQUESTS, lambda request: owners.keys_of(POD_GROUPS, request), optional=True
        )
        index(self._requests, _REQUEST_INDEX, lambda request: owners.keys_of(POD_GROUPS, request))
        self._pods = context.informer(PODS)
        index(self._pods, POD_INDEX, groups_of)

    async def reconcile(self, key: str) -> float | None:
        """Ask for nodes when the gang has waited for a while."""
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp or not _class_of(group):
            return None
        if verdict_of(group).cause not in CAUSES or not group.metadata.creation_timestamp:
            return None
        early = parse_time(group.metadata.creation_timestamp) + PATIENCE - self._clock.time()
        if early > 0:
            return early
        pending = [pod for pod in self._pods.by_index(POD_INDEX, key) if is_pending(pod)]
        if not pending:
            return _LOOK_AGAIN
        requests = self._requests.by_index(_REQUEST_INDEX, key)
        attempt = next_attempt(requests, most=ATTEMPTS)
        if attempt:
            await self._ask(group, sorted(pending, key=lambda pod: pod.metadata.name), attempt)
        else:
            await self._mark(group, pending, requests)
        return None

    async def _ask(self, group: PodGroup, pods: list[Pod], attempt: int) -> None:
        request, templates = request_for(group, pods, _class_of(group), attempt)
        try:
            for template in templates:
                await create_once(self._client, POD_TEMPLATES, template)
            await create_once(self._client, PROVISIONING_REQUESTS, request)
        except NotFound:
            text = (
                "this cluster has no ProvisioningRequests: run the cluster autoscaler with them, or leave out the class"
            )
            self._recorder.event(group, "Warning", "ProvisioningUnknown", text)
            return
        text = f"asked for nodes for {len(pods)} pods: ProvisioningRequest {request.metadata.name}"
        self._recorder.event(group, "Normal", "ProvisioningRequested", text)
        await self._mark(group, pods, [request])

    async def _mark(self, group: PodGroup, pods: list[Pod], requests: list[ProvisioningRequest]) -> None:
        """Pods say which request is theirs, so that no further nodes are made for them one by one."""
        current = next((each for each in requests if not each.has("Failed")), None)
        if current is None:
            return
        notes = {CONSUMES: current.metadata.name, CLASS: _class_of(group)}
        for pod in pods:
            have = pod.metadata.annotations or {}
            if all(have.get(name) == value for name, value in notes.items()):
                continue
            patch = {"metadata": {"uid": pod.metadata.uid, "annotations": notes}}
            try:
                await self._client.patch(PODS, pod.metadata.name, patch, namespace=pod.metadata.namespace)
            except NotFound:
                continue


def _class_of(group: PodGroup) -> str:
    return (group.metadata.annotations or {}).get(CLASS_OF_GROUP, "")
