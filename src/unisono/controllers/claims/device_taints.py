"""Evicts pods that use a device with a NoExecute taint which their claim does not tolerate.

On a cluster kube-controller-manager does this.
"""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api.core import DeviceTaint, Pod, ResourceClaim, ResourceSlice
from unisono.api.kinds import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from unisono.api.pod_states import has_ended
from unisono.controllers.claims.decide import is_pod
from unisono.controllers.indexing import index
from unisono.controllers.nodes.decide import disrupted, time_to_leave
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Recorder
from unisono.errors import Conflict, NotFound
from unisono.kube.controller import Context, Controller, sooner

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
        self._client, self._clock = context.client, context.clock
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
            pod = self._pods.get(f"{claim.metadata.namespace}/{user.name}") if is_pod(user) else None
            if pod is not None and pod.metadata.uid == user.uid and not is_deleting(pod) and not has_ended(pod):
                await self._evict(pod)
        return None

    def _due(self, claim: ResourceClaim) -> float | None:
        due: float | None = None
        allocation = claim.status.allocation
        for result in (allocation.devices.results or ()) if allocation is not None else ():
            device = (result.driver, result.pool, result.device)
            for taint in self._taints(device):
                mark = (device, taint.key, taint.value or "", taint.effect)
                seen = self._seen.setdefault(mark, self._clock.time())
                due = sooner(due, time_to_leave(result.tolerations or (), [taint], seen))
        return due

    def _taints(self, device: _Device) -> list[DeviceTaint]:
        """NoExecute taints of a device, as the newest slices of its pool have them."""
        driver, pool, name = device
        slices = self._slices.by_index(_POOL_INDEX, f"{driver}/{pool}")
        newest = max((one.spec.pool.generation or 0 for one in slices), default=0)
        found = [
            taint
            for one in slices
            if (one.spec.pool.generation or 0) == newest
            for each in one.spec.devices or ()
            if each.name == name
            for taint in each.taints or ()
            if taint.effect == "NoExecute"
        ]
        marks = {(taint.key, taint.value or "", taint.effect) for taint in found}
        for mark in [mark for mark in self._seen if mark[0] == device and mark[1:] not in marks]:
            del self._seen[mark]
        return found

    async def _evict(self, pod: Pod) -> None:
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

    def _concerned(self, one: ResourceSlice) -> Iterator[str]:
        for claim in self._claims.by_index(_CLAIM_INDEX, f"{one.spec.driver}/{one.spec.pool.name}"):
            yield claim.key


def pools_of(claim: ResourceClaim) -> list[str]:
    """Index function: ``driver/pool`` of the claim's devices."""
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    return list(dict.fromkeys(f"{one.driver}/{one.pool}" for one in results))
