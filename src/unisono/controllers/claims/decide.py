"""Claims of devices that extended resources stand for: which are made for pods, and limits on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from unisono.api import core
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.extended_devices import (
    EXTENDED_CLAIM,
    TooManyDevices,
    claim_spec,
    classes_by_resource,
    extended_requests,
    limit_claim,
    stands_for_limits,
)
from unisono.api.keys import POD_CLAIM_NAME
from unisono.api.kinds import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS
from unisono.api.pod_states import has_ended
from unisono.api.resources import resource_list
from unisono.controllers.owners import controller_keys, family, index
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller

# Claims for devices that are made for pods, and which pods go on using them: pure functions.

MOST_USERS = 256
# Leaves room for the hyphen and five characters that the server adds to a generated name.
_STEM = 57


def stem(pod: str, claim: str) -> str:
    """``POD-CLAIM-``, to which the server adds five characters; both are cut where that would be too long."""
    full = f"{pod}-{claim}-"
    if len(full) <= _STEM:
        return full
    return f"{pod[: len(pod) * _STEM // len(full)]}-{claim[: len(claim) * _STEM // len(full)]}"


def claim_from(
    template: core.ResourceClaimTemplate, pod: core.Pod, wanted: core.PodResourceClaim
) -> core.ResourceClaim:
    """The claim of a pod, made from a template."""
    given = template.spec.metadata or ObjectMeta()
    return core.ResourceClaim(
        metadata=ObjectMeta(
            generate_name=stem(pod.metadata.name, wanted.name),
            namespace=pod.metadata.namespace,
            labels=given.labels,
            annotations={**(given.annotations or {}), POD_CLAIM_NAME: wanted.name},
            owner_references=[
                OwnerReference(
                    api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid or "", controller=True
                )
            ],
        ),
        spec=msgspec.structs.replace(template.spec.spec),
    )


def made_for(
    pod: core.Pod, wanted: core.PodResourceClaim, owned: Iterable[core.ResourceClaim]
) -> core.ResourceClaim | None:
    """The claim that was made for one entry of the pod, among those that the pod owns."""
    fitting = [
        each
        for each in owned
        if (each.metadata.annotations or {}).get(POD_CLAIM_NAME) == wanted.name and not each.metadata.deletion_timestamp
    ]
    return min(fitting, key=lambda each: each.metadata.name, default=None)


def recorded(pod: core.Pod) -> dict[str, str | None]:
    """What the pod's status says: the name of the claim by entry, None for one that is not needed."""
    return {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses or ()}


def is_done(pod: core.Pod) -> bool:
    """Whether nothing of the pod will run any more: it ended, or was deleted before it had a node."""
    if has_ended(pod):
        return True
    return pod.metadata.deletion_timestamp is not None and not pod.spec.node_name


def uses(claim: core.ResourceClaim, pod: core.Pod) -> bool:
    """Whether the claim is reserved for the pod."""
    return any(each.uid == pod.metadata.uid for each in claim.status.reserved_for or ())


def is_pod(user: core.ResourceClaimConsumerReference) -> bool:
    """Whether the user of a claim is a pod; others are not ours to judge."""
    return not user.api_group and user.resource == "pods"


def needs_claims(pod: core.Pod) -> bool:
    """Whether the pod has resource claims: that it names, or that stand for its limits."""
    return bool(pod.spec.resource_claims) or limit_claim(pod) is not None


def claim_keys(pod: core.Pod) -> list[str]:
    """Index function: keys of the claims that the pod names, or that were made for it."""
    names = [each.resource_claim_name for each in pod.spec.resource_claims or ()]
    names += [each.resource_claim_name for each in pod.status.resource_claim_statuses or ()]
    names.append(limit_claim(pod))
    return [f"{pod.metadata.namespace}/{name}" for name in dict.fromkeys(names) if name]


def template_keys(pod: core.Pod) -> list[str]:
    """Index function: keys of the templates that the pod names."""
    names = (each.resource_claim_template_name for each in pod.spec.resource_claims or ())
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]


# Makes the claims that stand for extended resources which device classes serve (``spec.extendedResourceName``).
#
# kube-scheduler does so for its own pods when it binds them. Ours get the claim before, so that it is scheduled as any
# other: the engine gives devices to it, and the kubelet finds it in the pod's status. Where a node reports the resource
# itself, its device plugin gives the devices, and no claim is made.

_OWNER_INDEX = "limit-claims-of-pod"
_RESOURCE_INDEX = "pods-by-resource"
_RETRY_SECONDS = 5.0


class LimitClaimController(Controller):
    """Gives pods of our schedulers the claims that stand for their limits."""

    name = "pod-limit-claim-controller"

    def __init__(self, recorder: Recorder, scheduler_names: Collection[str]) -> None:
        self._announcer = Announcer(recorder)
        self._scheduler_names = frozenset(scheduler_names)

    def setup(self, context: Context) -> None:
        """Watch pods without a node that ask for such resources, and classes; a server need not have classes."""
        self._pods = context.watch(PODS, when=self._concerns)
        self._announcer.forget_deleted(self._pods)
        index(self._pods, _RESOURCE_INDEX, self._resources)
        self._classes = context.watch(DEVICE_CLASSES, self._waiting, optional=True)
        self._claims = context.watch(RESOURCE_CLAIMS, lambda claim: [], optional=True)
        index(self._claims, _OWNER_INDEX, controller_keys)
        self._nodes = context.informer(NODES)

    async def reconcile(self, key: str) -> float | None:
        """Make the claim of one pod unless it has one."""
        pod = self._pods.get(key)
        if pod is None or not self._resources(pod) or pod.metadata.deletion_timestamp or is_done(pod):
            return None
        served = self._served(self._resources(pod))
        try:
            planned = claim_spec(pod.spec, served)
        except TooManyDevices as error:
            self._complain(pod, str(error))
            return None
        if planned is None:
            return None
        try:
            claim = self._made(pod) or await self._client.create(RESOURCE_CLAIMS, _claim(pod, planned[0]))
            await self._tell(pod, claim, planned[1])
        except (NotFound, Conflict):
            return None
        except ApiError as error:
            self._complain(pod, f"create ResourceClaim for extended resources: {error}")
            return _RETRY_SECONDS
        return None

    def _served(self, resources: Collection[str]) -> dict[str, core.DeviceClass]:
        """Classes of those of the resources that no node reports itself."""
        classes = {name: one for name, one in classes_by_resource(self._classes.items()).items() if name in resources}
        return classes and {name: one for name, one in classes.items() if not self._is_reported(name)}

    def _is_reported(self, resource: str) -> bool:
        return any(_reports(node, resource) for node in self._nodes.items())

    def _made(self, pod: core.Pod) -> core.ResourceClaim | None:
        owned = (each for each in self._claims.by_index(_OWNER_INDEX, family(pod)) if stands_for_limits(each))
        return min(owned, key=lambda each: each.metadata.name, default=None)

    async def _tell(
        self, pod: core.Pod, claim: core.ResourceClaim, mappings: list[core.ContainerExtendedResourceRequest]
    ) -> None:
        meta = pod.metadata
        claim_status = core.PodExtendedResourceClaimStatus(
            request_mappings=mappings, resource_claim_name=claim.metadata.name
        )
        patch = {
            "metadata": {"uid": meta.uid},
            "status": {"extendedResourceClaimStatus": msgspec.to_builtins(claim_status)},
        }
        await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")

    def _complain(self, pod: core.Pod, text: str) -> None:
        self._announcer.tell(pod, [Notice("Warning", "FailedResourceClaimCreation", text, once=text)])

    def _resources(self, pod: core.Pod) -> list[str]:
        """Index function: extended resources of a pod of ours that has no node and no such claim yet."""
        spec = pod.spec
        ours = (spec.scheduler_name or "") in self._scheduler_names
        if not ours or spec.node_name or limit_claim(pod) is not None:
            return []
        every = [*(spec.init_containers or ()), *(spec.containers or ())]
        named = {name for each in every for name in (each.resources.limits or {}) if "/" in name}
        return sorted({name for _, name, _, _ in extended_requests(spec, named)}) if named else []

    def _waiting(self, device_class: core.DeviceClass) -> list[str]:
        names = classes_by_resource([device_class])
        return [pod.key for name in names for pod in self._pods.by_index(_RESOURCE_INDEX, name)]

    def _concerns(self, event_type: EventType, new: core.Pod, old: core.Pod | None) -> bool:
        return event_type != "DELETED" and bool(self._resources(new))


def _reports(node: core.Node, resource: str) -> bool:
    amount = (node.status.allocatable or {}).get(resource)
    return amount is not None and resource_list({resource: amount})[resource] > 0


def _claim(pod: core.Pod, spec: core.ResourceClaimSpec) -> core.ResourceClaim:
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid or "", controller=True)
    return core.ResourceClaim(
        metadata=ObjectMeta(
            generate_name=stem(meta.name, "extended-resources"),
            namespace=meta.namespace,
            annotations={EXTENDED_CLAIM: "true"},
            owner_references=[owner],
        ),
        spec=spec,
    )
