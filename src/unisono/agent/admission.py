"""Whether a pod that was bound to a node fits there: the node decides last, as a kubelet does. Pure.

Two schedulers that do not know of each other's latest choices can fill a node twice. Pods are accepted in the
order in which they come; what does not fit beside those that were accepted before is refused for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.agent.lifecycle import Reason
from unisono.api.core import Pod
from unisono.api.core.pod import PodSpec
from unisono.api.keys import BATCH_CPU, BATCH_MEMORY
from unisono.api.resources import is_bytes, pod_requests

# These are looked at first, in this order; the first that is short gives the reason.
_FIRST = ("pods", "cpu", "memory", "ephemeral-storage", "containers")
# Containers at a time, on nodes that offer a number of them: each takes an open file of the agent.
CONTAINERS = "containers"
_PREFIXES = ("hugepages-", "attachable-volumes-")


class Requests:
    """What pods request; equal pods come in a row, so the answer for the last one is kept."""

    def __init__(self) -> None:
        self._key: Any = None
        self._answer: Mapping[str, int] = {}

    def of(self, spec: PodSpec) -> Mapping[str, int]:
        """Requests in engine units, with the pod's own place."""
        key = (
            [c.resources for c in spec.containers or ()],
            [(c.resources, c.restart_policy) for c in spec.init_containers or ()],
            spec.resources,
            spec.overhead,
        )
        if key != self._key:
            wanted = {name: amount for name, amount in pod_requests(spec).items() if amount > 0 and _counts(name)}
            self._key, self._answer = key, {"pods": 1} | wanted
        return self._answer


class Ledger:
    """What the accepted pods of one node hold.

    Args:
        allocatable: what the node offers, in engine units.
        requests: shared by the ledgers of one process.
    """

    __slots__ = ("_allocatable", "_held", "_requests", "_used")

    def __init__(self, allocatable: Mapping[str, int], requests: Requests | None = None) -> None:
        self._allocatable, self._requests = allocatable, requests or Requests()
        self._held: dict[str, Mapping[str, int]] = {}
        self._used: dict[str, int] = {}

    def admit(self, pod: Pod) -> Reason | None:
        """Accept a pod, or say why it does not fit; one that was accepted before stays so."""
        uid = pod.metadata.uid or ""
        if uid in self._held:
            return None
        wanted = self._wanted(pod)
        short = [name for name, amount in wanted.items() if self._lacks(name, amount)]
        if not short:
            self._hold(uid, wanted)
            return None
        name = next((name for name in _FIRST if name in short), None) or min(short)
        numbers = (wanted[name], self._used.get(name, 0), self._allocatable.get(name, 0))
        requested, used, capacity = (_as_kubelet(name, number) for number in numbers)
        return Reason(
            f"OutOf{name}",
            f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}",
        )

    def take(self, pod: Pod) -> None:
        """Count a pod that runs already, whether or not it fits."""
        uid = pod.metadata.uid or ""
        if uid not in self._held:
            self._hold(uid, self._wanted(pod))

    def release(self, uid: str) -> None:
        """Nothing of the pod runs any more, nor will."""
        for name, amount in self._held.pop(uid, {}).items():
            self._used[name] -= amount

    def _wanted(self, pod: Pod) -> Mapping[str, int]:
        wanted = self._requests.of(pod.spec)
        if CONTAINERS in self._allocatable:
            wanted = {**wanted, CONTAINERS: _containers(pod.spec)}
        if (backed := pod.status.extended_resource_claim_status) is None:
            return wanted
        # What a pod has through a resource claim stands in other accounts.
        elsewhere = {each.resource_name for each in backed.request_mappings or ()}
        return {name: amount for name, amount in wanted.items() if name not in elsewhere}

    def _hold(self, uid: str, wanted: Mapping[str, int]) -> None:
        self._held[uid] = wanted
        for name, amount in wanted.items():
            self._used[name] = self._used.get(name, 0) + amount

    def _lacks(self, name: str, amount: int) -> bool:
        offered = self._allocatable.get(name)
        if offered is None and _is_extended(name):
            # Of a resource that the node does not know it cannot say how much there is: others look after it.
            return False
        return self._used.get(name, 0) + amount > (offered or 0)


def _containers(spec: PodSpec) -> int:
    """How many containers of a pod run at a time: init containers do so before the others, sidecars beside them."""
    inits = spec.init_containers or ()
    return len(spec.containers or ()) + sum(each.restart_policy == "Always" for each in inits)


def _counts(name: str) -> bool:
    # What the node lends changes with its use: too much of it is taken back by eviction.
    return name not in (BATCH_CPU, BATCH_MEMORY) and (name in _FIRST or "/" in name or name.startswith(_PREFIXES))


def _is_extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name


def _as_kubelet(name: str, amount: int) -> int:
    """Milli-CPU, bytes, and whole numbers of everything else, as a kubelet writes them."""
    return amount if name in _FIRST or is_bytes(name) else -(-amount // 1000)
