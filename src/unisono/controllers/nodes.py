"""Life of nodes on a control plane of one machine: heartbeats that stop, taints, and what happens to the pods."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec
import structlog

from unisono.api.conditions import find_condition
from unisono.api.core import DeviceTaint, DeviceToleration, Lease, Node, NodeCondition, Pod, Taint, Toleration
from unisono.api.keys import NODE_DISK_PRESSURE, NODE_NOT_READY, NODE_OUT_OF_SERVICE, NODE_UNREACHABLE
from unisono.api.kinds import LEASES, NODES, PODS
from unisono.api.pod_states import has_ended
from unisono.api.times import rfc3339, time_or
from unisono.controllers.objects import LastWritten
from unisono.controllers.owners import index
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Recorder
from unisono.controllers.workloads.templates import covers
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner

# What a node's heartbeat and taints mean: pure functions.

_OWN = (NODE_DISK_PRESSURE, NODE_NOT_READY, NODE_UNREACHABLE)
_REPELLING = ("NoSchedule", "NoExecute")


def ready(node: Node) -> NodeCondition | None:
    """The node's Ready condition."""
    return find_condition(node.status.conditions, "Ready")


def out_of_service(node: Node) -> bool:
    """An administrator, or a program for machines, says that it is off; believed only while it is not ready."""
    ready_condition = ready(node)
    off = any(each.key == NODE_OUT_OF_SERVICE for each in node.spec.taints or ())
    return off and ready_condition is not None and ready_condition.status != "True"


def lost_conditions(node: Node, now: float) -> list[NodeCondition] | None:
    """Conditions of a node that has fallen silent; None when they say so already."""
    ready_condition = ready(node)
    if ready_condition is not None and ready_condition.status == "Unknown":
        return None
    stamp = rfc3339(now)
    lost = NodeCondition(
        type="Ready",
        status="Unknown",
        reason="NodeStatusUnknown",
        message="The node agent stopped posting node status.",
        last_heartbeat_time=ready_condition.last_heartbeat_time if ready_condition is not None else None,
        last_transition_time=stamp,
    )
    return [*(each for each in node.status.conditions or () if each.type != "Ready"), lost]


def wanted_taints(node: Node, now: float) -> list[Taint] | None:
    """The node's taints as its conditions Ready and DiskPressure ask for them; None when they are right.

    Taints of others stay; a taint that is there keeps the time at which it came.
    """
    ready_condition = ready(node)
    key = (
        ""
        if ready_condition is None or ready_condition.status == "True"
        else NODE_UNREACHABLE
        if ready_condition.status == "Unknown"
        else NODE_NOT_READY
    )
    expected = [(key, effect) for effect in _REPELLING if key]
    if any((each.type, each.status) == ("DiskPressure", "True") for each in node.status.conditions or ()):
        expected.append((NODE_DISK_PRESSURE, "NoSchedule"))
    present = list(node.spec.taints or ())
    kept = [each for each in present if each.key not in _OWN or each.key in {name for name, _ in expected}]
    for name, effect in expected:
        if not any((each.key, each.effect) == (name, effect) for each in kept):
            kept.append(Taint(key=name, effect=effect, time_added=rfc3339(now)))
    return None if kept == present else kept


def eviction_time(pod: Pod, taints: Sequence[Taint], seen: float) -> float | None:
    """When the pod must leave a node with these taints, seconds since 1970; None when it may stay.

    Args:
        pod: a pod on the node.
        taints: the node's taints.
        seen: since when this process knows of them: after a pause of the control plane no pod is evicted for a time in
            which no node could be heard.
    """
    return time_to_leave(pod.spec.tolerations or (), taints, seen)


def time_to_leave(
    tolerations: Sequence[Toleration | DeviceToleration], taints: Sequence[Taint | DeviceTaint], seen: float
) -> float | None:
    """When NoExecute taints end what has these tolerations, seconds since 1970; None: never. ``seen`` is as above."""
    due: list[float] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        fitting = [each for each in tolerations if covers(each, taint)]
        since = max(seen, time_or(taint.time_added, seen))
        if not fitting:
            due.append(since)
            continue
        limits = [each.toleration_seconds for each in fitting if each.toleration_seconds is not None]
        if limits:
            due.append(since + max(0, min(limits)))
    return min(due) if due else None


def disrupted(
    pod: Pod,
    now: float,
    reason: str = "DeletionByTaintManager",
    message: str = "Taint manager: deleting due to NoExecute taint",
) -> list[dict[str, object]]:
    """The pod's conditions with the one that tells why it is deleted."""
    others = [msgspec.to_builtins(each) for each in pod.status.conditions or () if each.type != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(now),
    }
    return [*others, condition]


# Nodes whose heartbeat has stopped, and pods that cannot stay where they are.
#
# On a cluster kube-controller-manager does this. A node without a Lease never promised a heartbeat and is left alone.

LEASE_NAMESPACE = "kube-node-lease"
# A heartbeat may be late by as much as a kubelet's.
GRACE_SECONDS = 40.0
# Pods of a deleted node are removed after so long: it may be registered again.
_ORPHAN_SECONDS = 40.0
# A node whose time ran out is looked at within this time, unless this process was stopped meanwhile.
_PUNCTUAL_SECONDS = 5.0
# A pod that could not be removed is tried again after so long.
_RETRY_SECONDS = 10.0
_NODE_INDEX = "pods-of-node"

_log = structlog.get_logger(__name__)


class NodeLifecycleController(Controller):
    """Keeps Ready conditions and taints true, and evicts pods from nodes that they do not tolerate."""

    name = "node-lifecycle-controller"
    workers = 4

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._written: LastWritten[Node] = LastWritten()
        # By node: the last heartbeat, and when it was seen here.
        self._heard: dict[str, tuple[str, float]] = {}
        # By node: the heartbeat after which it was given its time once more, because this process had been stopped.
        self._spared: dict[str, str] = {}
        # By node: its taints, and since when they are known here.
        self._tainted: dict[str, tuple[tuple[str, ...], float]] = {}
        self._missing: dict[str, float] = {}

    def setup(self, context: Context) -> None:
        """Watch nodes, their Leases, and pods that are bound."""
        self._nodes = context.watch(NODES)
        self._leases = context.watch(LEASES, _node_of_lease)
        self._pods = context.watch(PODS, _node_of_pod, when=_came_or_went)
        index(self._pods, _NODE_INDEX, _node_of_pod)

    async def reconcile(self, key: str) -> float | None:
        """Look at one node and its pods."""
        node = self._written.newest(key, self._nodes.get(key))
        pods = [pod for pod in self._pods.by_index(_NODE_INDEX, key) if not has_ended(pod)]
        if node is None:
            return await self._remove_orphans(key, pods)
        self._missing.pop(key, None)
        try:
            node, again = await self._listen(node)
            node = await self._taint(node)
        except NotFound:
            return None
        return sooner(again, await self._evict(node, pods))

    async def _listen(self, node: Node) -> tuple[Node, float | None]:
        """Mark the node as lost when its heartbeat has stopped; answers when to listen again."""
        name, now = node.metadata.name, self._clock.monotonic()
        lease = self._leases.get(f"{LEASE_NAMESPACE}/{name}")
        if lease is None:
            return node, None
        beat = lease.spec.renew_time or ""
        if name not in self._heard or self._heard[name][0] != beat:
            self._heard[name] = (beat, now)
        patience = max(GRACE_SECONDS, float(lease.spec.lease_duration_seconds or 0))
        left = self._heard[name][1] + patience - now
        if left > 0:
            return node, left
        if left < -_PUNCTUAL_SECONDS and self._spared.get(name) != beat:
            # Stopped (SIGSTOP) or starved, this process could not hear heartbeats; nodes on this machine sent none.
            self._spared[name], self._heard[name] = beat, (beat, now)
            return node, patience
        conditions = lost_conditions(node, self._clock.time())
        if conditions is not None:
            ready_condition = ready(node)
            status = {"conditions": [msgspec.to_builtins(each) for each in conditions]}
            patch = {"metadata": {"resourceVersion": node.metadata.resource_version}, "status": status}
            node = await self._client.patch(NODES, name, patch, subresource="status")
            self._written.keep(node)
            if ready_condition is None or ready_condition.status == "True":
                text = f"Node {name} status is now: NodeNotReady"
                self._recorder.event(node, "Normal", "NodeNotReady", text)
        return node, None

    async def _taint(self, node: Node) -> Node:
        taints = wanted_taints(node, self._clock.time())
        if taints is None:
            return node
        patch = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [msgspec.to_builtins(each) for each in taints] or None},
        }
        node = await self._client.patch(NODES, node.metadata.name, patch)
        self._written.keep(node)
        return node

    async def _evict(self, node: Node, pods: Sequence[Pod]) -> float | None:
        """Delete pods whose time on the node is over; answers when the next one's is."""
        name, now = node.metadata.name, self._clock.time()
        taints = [each for each in node.spec.taints or () if each.effect == "NoExecute"]
        marks = tuple(sorted(f"{each.key}={each.value}" for each in taints))
        if name not in self._tainted or self._tainted[name][0] != marks:
            self._tainted[name] = (marks, now)
        again: float | None = None
        off = out_of_service(node)
        for pod in pods:
            try:
                if off:
                    await self._remove(pod)
                    continue
                left = await self._evict_one(pod, taints, self._tainted[name][1], now)
            except Exception as error:
                # The other pods must leave all the same.
                again = sooner(again, _RETRY_SECONDS)
                await self._context.tell(PODS, pod, error)
            else:
                again = sooner(again, left)
                await self._context.tell(PODS, pod, None)
        return again

    async def _remove(self, pod: Pod) -> None:
        """Delete the object of a pod that runs nowhere, whatever its grace period."""
        meta = pod.metadata
        with contextlib.suppress(NotFound, Conflict):
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)

    async def _evict_one(self, pod: Pod, taints: Sequence[Taint], seen: float, now: float) -> float | None:
        """Delete the pod if its time is over; answers in how many seconds it will be."""
        due = eviction_time(pod, taints, seen)
        if due is None or is_deleting(pod):
            return None
        if due > now:
            return due - now
        meta = pod.metadata
        self._recorder.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {pod.key}")
        try:
            patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": disrupted(pod, now)}}
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return None
        return None

    async def _remove_orphans(self, name: str, pods: Sequence[Pod]) -> float | None:
        """Pods of a node that is gone run nowhere: their objects go without waiting for an agent."""
        self._heard.pop(name, None)
        self._spared.pop(name, None)
        self._tainted.pop(name, None)
        if not pods:
            self._missing.pop(name, None)
            return None
        left = self._missing.setdefault(name, self._clock.monotonic()) + _ORPHAN_SECONDS - self._clock.monotonic()
        if left > 0:
            return left
        again: float | None = None
        for pod in pods:
            try:
                await self._remove(pod)
            except ApiError as error:
                again = _RETRY_SECONDS
                _log.warning("node.orphan_not_removed", pod=pod.key, error=str(error))
        return again


def _came_or_went(event_type: EventType, new: Pod, old: Pod | None) -> bool:
    return event_type != "MODIFIED" or old is None or new.spec.node_name != old.spec.node_name


def _node_of_lease(lease: Lease) -> list[str]:
    return [lease.metadata.name] if lease.metadata.namespace == LEASE_NAMESPACE else []


def _node_of_pod(pod: Pod) -> list[str]:
    return [pod.spec.node_name] if pod.spec.node_name else []
