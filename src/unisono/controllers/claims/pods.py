"""Claims of pods: made from their templates, taken back from those that ended, lost with a device's taint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from unisono.api import core
from unisono.api.conditions import has_finalizer, without
from unisono.api.keys import DELETE_PROTECTION
from unisono.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES
from unisono.api.pod_states import has_ended
from unisono.api.selecting import controller_of
from unisono.controllers.claims import decide
from unisono.controllers.nodes import disrupted, time_to_leave
from unisono.controllers.objects import delete_seen
from unisono.controllers.owners import controller_keys, controller_uids, family, index
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner

# Makes the claims of pods that name a ResourceClaimTemplate, and tells the pod their names.
#
# On a cluster kube-controller-manager does this.

CLAIM_INDEX = "pods-of-resource-claim"
OWNER_INDEX = "controller-uid"
_TEMPLATE_INDEX = "pods-of-claim-template"
_RETRY_SECONDS = 5.0


class PodClaimController(Controller):
    """Makes claims for pods, and reserves claims for pods that came to their node without the scheduler."""

    name = "pod-resource-claim-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._announcer = Announcer(recorder)
        # By pod and entry: claims that were made a moment ago, which the cache may not show yet.
        self._made: dict[tuple[str, str], core.ResourceClaim] = {}

    def setup(self, context: Context) -> None:
        """Watch pods with claims, templates that they wait for, and claims that go while their pod is there."""
        self._pods = context.watch(PODS, when=_concerns)
        self._announcer.forget_deleted(self._pods)
        index(self._pods, CLAIM_INDEX, decide.claim_keys)
        index(self._pods, _TEMPLATE_INDEX, decide.template_keys)
        self._templates = context.watch(RESOURCE_CLAIM_TEMPLATES, self._waiting, when=_comes)
        self._claims = context.watch(RESOURCE_CLAIMS, self._users)
        index(self._claims, OWNER_INDEX, controller_keys)

    async def reconcile(self, key: str) -> float | None:
        """Make what is missing."""
        pod = self._pods.get(key)
        # A pod that has ended gets no new claims: those that were made for it go.
        if pod is None or pod.metadata.deletion_timestamp or decide.is_done(pod) or not decide.needs_claims(pod):
            return None
        names, again = decide.recorded(pod), None
        before = dict(names)
        for entry in pod.spec.resource_claims or ():
            if entry.resource_claim_template_name is None:
                continue
            try:
                names[entry.name] = await self._claim_of(pod, entry, before)
            except _NoTemplate as error:
                text = f'PodResourceClaim {entry.name}: resource claim template "{error}" not found'
                self._announcer.tell(pod, [Notice("Warning", "FailedResourceClaimCreation", text, once=text)])
            except NotFound:
                return None
            except Conflict:
                raise
            except ApiError as error:
                text = f"PodResourceClaim {entry.name}: create ResourceClaim: {error}"
                self._announcer.tell(pod, [Notice("Warning", "FailedResourceClaimCreation", text, once=text)])
                again = _RETRY_SECONDS
        try:
            if names != before:
                pod = await self._tell(pod, names)
            if pod.spec.node_name:
                await self._reserve(pod)
        except NotFound:
            return None
        return again

    async def _claim_of(self, pod: core.Pod, wanted: core.PodResourceClaim, names: dict[str, str | None]) -> str | None:
        """Name of the claim of one entry, made unless it is there; None when none is needed."""
        uid, namespace = pod.metadata.uid or "", pod.metadata.namespace
        if wanted.name in names:
            name = names[wanted.name]
            if name is None:
                return None
            existing = self._claims.get(f"{namespace}/{name}")
            if existing is not None and uid in controller_uids(existing):
                self._made.pop((uid, wanted.name), None)
                return name
        claim = decide.made_for(pod, wanted, self._claims.by_index(OWNER_INDEX, family(pod))) or await self._fresh(
            uid, wanted
        )
        if claim is None:
            template = self._templates.get(f"{namespace}/{wanted.resource_claim_template_name}")
            if template is None:
                raise _NoTemplate(wanted.resource_claim_template_name)
            claim = await self._client.create(RESOURCE_CLAIMS, decide.claim_from(template, pod, wanted))
            self._made[uid, wanted.name] = claim
        return claim.metadata.name

    async def _fresh(self, uid: str, wanted: core.PodResourceClaim) -> core.ResourceClaim | None:
        """A claim that was made here before the cache showed it; one that has gone again does not count."""
        made = self._made.pop((uid, wanted.name), None)
        if made is None:
            return None
        try:
            current = await self._client.get(RESOURCE_CLAIMS, made.metadata.name, made.metadata.namespace)
        except NotFound:
            return None
        return (
            current if current.metadata.uid == made.metadata.uid and not current.metadata.deletion_timestamp else None
        )

    async def _tell(self, pod: core.Pod, names: dict[str, str | None]) -> core.Pod:
        meta = pod.metadata
        statuses = [core.PodResourceClaimStatus(name=entry, resource_claim_name=name) for entry, name in names.items()]
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"resourceClaimStatuses": msgspec.to_builtins(statuses)},
        }
        return await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")

    async def _reserve(self, pod: core.Pod) -> None:
        """The scheduler reserves claims for its pods; this is for pods that it never saw."""
        for key in decide.claim_keys(pod):
            claim = self._claims.get(key)
            if claim is None or claim.status.allocation is None or decide.uses(claim, pod):
                continue
            users = claim.status.reserved_for or []
            if len(users) >= decide.MOST_USERS:
                continue
            user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
            meta = claim.metadata
            patch = {
                "metadata": {"resourceVersion": meta.resource_version},
                "status": {"reservedFor": [*msgspec.to_builtins(users), user]},
            }
            await self._client.patch(RESOURCE_CLAIMS, meta.name, patch, namespace=meta.namespace, subresource="status")

    def _waiting(self, template: core.ResourceClaimTemplate) -> list[str]:
        return [pod.key for pod in self._pods.by_index(_TEMPLATE_INDEX, template.key)]

    def _users(self, claim: core.ResourceClaim) -> list[str]:
        return [pod.key for pod in self._pods.by_index(CLAIM_INDEX, claim.key)]


class _NoTemplate(Exception):
    """The template does not exist yet."""


def _concerns(event_type: EventType, new: core.Pod, old: core.Pod | None) -> bool:
    if event_type == "DELETED" or not decide.needs_claims(new):
        return False
    return old is None or (old.spec.node_name, decide.recorded(old)) != (new.spec.node_name, decide.recorded(new))


def _comes(event_type: EventType, new: core.ResourceClaimTemplate, old: core.ResourceClaimTemplate | None) -> bool:
    return event_type == "ADDED"


# Takes claims back from pods that use them no more: devices become free, claims made for a pod go.
#
# On a cluster kube-controller-manager does this.


class ClaimUserController(Controller):
    """Keeps ``status.reservedFor`` true, and frees what is not used."""

    name = "resource-claim-controller"

    def setup(self, context: Context) -> None:
        """Watch claims, and pods that end."""
        self._claims = context.watch(RESOURCE_CLAIMS)
        self._pods = context.watch(PODS, decide.claim_keys, when=_may_let_go)
        index(self._pods, CLAIM_INDEX, decide.claim_keys)

    async def reconcile(self, key: str) -> float | None:
        """Look at one claim and its users."""
        claim = self._claims.get(key)
        if claim is None:
            return None
        users = claim.status.reserved_for or []
        remaining = [user for user in users if not decide.is_pod(user) or await self._still_uses(claim, user)]
        try:
            if len(remaining) < len(users):
                claim = await self._free(claim, remaining)
            elif not remaining and claim.metadata.deletion_timestamp and has_finalizer(claim, DELETE_PROTECTION):
                claim = await self._free(claim, [])
            if not remaining:
                await self._delete_unneeded(claim)
        except NotFound:
            return None
        return None

    async def _still_uses(self, claim: core.ResourceClaim, user: core.ResourceClaimConsumerReference) -> bool:
        """Whether the pod is there and will run; the server is asked about one that the cache does not show."""
        pod = self._pods.get(f"{claim.metadata.namespace}/{user.name}")
        if pod is None:
            try:
                pod = await self._client.get(PODS, user.name, claim.metadata.namespace)
            except NotFound:
                return False
        return pod.metadata.uid == user.uid and not decide.is_done(pod)

    async def _free(
        self, claim: core.ResourceClaim, remaining: list[core.ResourceClaimConsumerReference]
    ) -> core.ResourceClaim:
        """Take users away; with the last one go the devices, and the finalizer that kept the claim for them."""
        status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(remaining) or None}
        over = not remaining and has_finalizer(claim, DELETE_PROTECTION)
        if over:
            status["allocation"] = None
        if len(remaining) < len(claim.status.reserved_for or ()) or (over and claim.status.allocation is not None):
            claim = await self._patch(claim, {"status": status}, "status")
        if over:
            kept = without(claim.metadata.finalizers, DELETE_PROTECTION)
            claim = await self._patch(claim, {"metadata": {"finalizers": kept}})
        return claim

    async def _delete_unneeded(self, claim: core.ResourceClaim) -> None:
        """A claim that was made for a pod goes when the pod has ended, even if the pod stays for a while."""
        owner = controller_of(claim)
        if owner is None or owner.kind != "Pod" or claim.metadata.deletion_timestamp:
            return
        pod = self._pods.get(f"{claim.metadata.namespace}/{owner.name}")
        if pod is not None and (pod.metadata.uid != owner.uid or decide.is_done(pod)):
            await delete_seen(self._client, RESOURCE_CLAIMS, claim)

    async def _patch(
        self, claim: core.ResourceClaim, patch: dict[str, Any], subresource: str | None = None
    ) -> core.ResourceClaim:
        meta = claim.metadata
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}}
        return await self._client.patch(
            RESOURCE_CLAIMS, meta.name, guarded, namespace=meta.namespace, subresource=subresource
        )


def _may_let_go(event_type: EventType, new: core.Pod, old: core.Pod | None) -> bool:
    return decide.needs_claims(new) and (event_type == "DELETED" or decide.is_done(new))


# Evicts pods that use a device with a NoExecute taint which their claim does not tolerate.
#
# On a cluster kube-controller-manager does this.

_Device = tuple[str, str, str]
"""(driver, pool, device)."""
_POOL_INDEX = "slices-of-pool"
_CLAIM_INDEX = "claims-of-pool"


class DeviceTaintController(Controller):
    """Deletes the pods of claims whose devices must not be used any longer."""

    name = "device-taint-eviction-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # By device and taint: since when it is known here; a taint need not say when it came.
        self._seen: dict[tuple[_Device, str, str, str], float] = {}

    def setup(self, context: Context) -> None:
        """Watch claims, and slices, whose taints concern the claims of their pool."""
        self._claims = context.watch(RESOURCE_CLAIMS)
        self._slices = context.watch(RESOURCE_SLICES, self._concerned)
        self._pods = context.informer(PODS)
        index(self._claims, _CLAIM_INDEX, pools_of)
        index(self._slices, _POOL_INDEX, lambda one: [f"{one.spec.driver}/{one.spec.pool.name}"])

    async def reconcile(self, key: str) -> float | None:
        """Look at one claim; answers in how many seconds its pods must go."""
        claim = self._claims.get(key)
        if claim is None or claim.status.allocation is None:
            return None
        due = self._due(claim)
        if due is None:
            return None
        left = due - self._clock.time()
        if left > 0:
            return left
        for user in claim.status.reserved_for or ():
            pod = self._pods.get(f"{claim.metadata.namespace}/{user.name}") if decide.is_pod(user) else None
            if pod is not None and pod.metadata.uid == user.uid and not is_deleting(pod) and not has_ended(pod):
                await self._evict(pod)
        return None

    def _due(self, claim: core.ResourceClaim) -> float | None:
        due: float | None = None
        allocation = claim.status.allocation
        for result in (allocation.devices.results or ()) if allocation is not None else ():
            device = (result.driver, result.pool, result.device)
            for taint in self._taints(device):
                mark = (device, taint.key, taint.value or "", taint.effect)
                seen = self._seen.setdefault(mark, self._clock.time())
                due = sooner(due, time_to_leave(result.tolerations or (), [taint], seen))
        return due

    def _taints(self, device: _Device) -> list[core.DeviceTaint]:
        """NoExecute taints of a device, as the newest slices of its pool have them."""
        driver, pool, name = device
        slices = self._slices.by_index(_POOL_INDEX, f"{driver}/{pool}")
        newest = max((one.spec.pool.generation or 0 for one in slices), default=0)
        device_taints = [
            taint
            for one in slices
            if (one.spec.pool.generation or 0) == newest
            for each in one.spec.devices or ()
            if each.name == name
            for taint in each.taints or ()
            if taint.effect == "NoExecute"
        ]
        marks = {(taint.key, taint.value or "", taint.effect) for taint in device_taints}
        for mark in [mark for mark in self._seen if mark[0] == device and mark[1:] not in marks]:
            del self._seen[mark]
        return device_taints

    async def _evict(self, pod: core.Pod) -> None:
        meta = pod.metadata
        self._recorder.event(pod, "Normal", "DeviceTaintManagerEviction", "Marking for deletion")
        reason, text = "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"
        try:
            status = {"conditions": disrupted(pod, self._clock.time(), reason, text)}
            patch = {"metadata": {"uid": meta.uid}, "status": status}
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return

    def _concerned(self, one: core.ResourceSlice) -> Iterator[str]:
        for claim in self._claims.by_index(_CLAIM_INDEX, f"{one.spec.driver}/{one.spec.pool.name}"):
            yield claim.key


def pools_of(claim: core.ResourceClaim) -> list[str]:
    """Index function: ``driver/pool`` of the claim's devices."""
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    return list(dict.fromkeys(f"{one.driver}/{one.pool}" for one in results))
