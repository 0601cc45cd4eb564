"""Nodes for whole gangs, asked of the cluster autoscaler by ProvisioningRequests."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.groups.autoscaling import (
    CLASS,
    CLASS_OF_GROUP,
    CONSUMES,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    PodSet,
    PodTemplate,
    PodTemplateRef,
    ProvisioningRequest,
    ProvisioningRequestSpec,
)
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.times import parse_time
from unisono.controllers import owners
from unisono.controllers.node_scaling.decide import CAUSES, PATIENCE, POD_INDEX, groups_of, is_pending, verdict_of
from unisono.controllers.objects import create_once
from unisono.controllers.owners import index, owned_by
from unisono.controllers.recorder import Recorder
from unisono.errors import NotFound
from unisono.kube.controller import Context, Controller

# What a waiting gang asks the cluster autoscaler for (pure).

_LONGEST_NAME = 253 - 16


def next_attempt(requests: Sequence[ProvisioningRequest], *, most: int) -> int:
    """Number of the request to make now, from 1; 0 when one is under way or has been fulfilled, or all have failed."""
    open_ones = [each for each in requests if not each.has("Failed")]
    return 0 if open_ones or len(requests) >= most else len(requests) + 1


def request_for(
    group: PodGroup, pods: Sequence[Pod], class_name: str, attempt: int
) -> tuple[ProvisioningRequest, list[PodTemplate]]:
    """The request for a gang's pods, and the templates of its sets of equal pods; the gang owns them all.

    Args:
        group: the gang.
        pods: its pods that have no place, at least one.
        class_name: of the provisioner, such as ``best-effort-atomic-scale-up.autoscaling.x-k8s.io``.
        attempt: number of the request, from 1; a request cannot be changed or repeated.

    """
    name = f"{group.metadata.name[:_LONGEST_NAME]}-{attempt}"
    alike: dict[bytes, list[Pod]] = {}
    for pod in pods:
        alike.setdefault(_essence(pod), []).append(pod)
    templates, sets = [], []
    for number, same in enumerate(alike.values()):
        meta = _meta(f"{name}-{number}", group)
        labels = dict(same[0].metadata.labels or {})
        spec = msgspec.json.decode(_essence(same[0]), type=type(same[0].spec))
        template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=spec)
        templates.append(PodTemplate(metadata=meta, template=template))
        sets.append(PodSet(PodTemplateRef(meta.name), len(same)))
    spec_of = ProvisioningRequestSpec(provisioning_class_name=class_name, pod_sets=sets)
    return ProvisioningRequest(metadata=_meta(name, group), spec=spec_of), templates


def _meta(name: str, group: PodGroup) -> ObjectMeta:
    owner = owned_by(POD_GROUPS, group)
    return ObjectMeta(name=name, namespace=group.metadata.namespace, owner_references=[owner])


def _essence(pod: Pod) -> bytes:
    """A pod's spec without what tells it from its equals."""
    return msgspec.json.encode(msgspec.structs.replace(pod.spec, node_name=None, hostname=None))


# Asks the cluster autoscaler for nodes, for gangs that name a provisioning class and wait for room.

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
