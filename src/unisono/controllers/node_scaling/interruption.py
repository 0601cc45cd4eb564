"""Machines that their cloud takes back: pods are told to save their work, and ended in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api import keys
from unisono.api.annotations import CHECKPOINT_BEFORE, INTERRUPTED, INTERRUPTED_AT
from unisono.api.core import Node, Pod, Taint
from unisono.api.kinds import NODES, PODS
from unisono.api.pod_states import has_ended, is_disrupted
from unisono.api.selecting import pod_group_of
from unisono.api.times import format_duration, rfc3339, time_or
from unisono.controllers.node_scaling.decide import POD_INDEX, groups_of
from unisono.controllers.node_scaling.shrink import is_of_node
from unisono.controllers.owners import index
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError, Conflict, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner

# What nodes say about machines that their cloud takes back, and what their pods must do about it (pure).

TAKEN_BACK: Mapping[str, float] = {
    keys.AWS_SPOT_INTERRUPTION: 120.0,
    keys.AWS_MAINTENANCE: 120.0,
    keys.AWS_SCALE_IN: 120.0,
    keys.GKE_TERMINATION: 30.0,
    keys.AKS_PREEMPTION: 30.0,
}
"""Seconds between such a taint and the end of the machine."""
DRAINED_BY_OTHERS = (keys.AWS_REBALANCE, keys.KARPENTER_DISRUPTED, keys.AUTOSCALER_DELETES)
"""Taints of machines that may go or that others drain: pods are told to save their work, and not ended."""
_AZURE_CONDITION, _AZURE_REASONS, _AZURE_SECONDS = "VMEventScheduled", ("PreemptScheduled", "TerminateScheduled"), 30.0
_DRAIN_SECONDS = 120.0
MARGIN = 5.0
"""Seconds that are left between the end of the last container and the end of the machine."""


@dataclass(frozen=True, slots=True)
class InterruptionNotice:
    """A machine is about to go.

    Attributes:
        source: the taint, condition or annotation that says so.
        ends: when the machine goes, seconds since 1970.
        ours: its pods are to be ended in time; otherwise someone else drains the node.
        tainted: the notice keeps new pods away by itself.
    """

    source: str
    ends: float
    ours: bool = True
    tainted: bool = True


def notice_of(node: Node, seen: float) -> InterruptionNotice | None:
    """The notice on the node that ends first, those that take the machine for certain before others; None without one.

    Args:
        node: the node.
        seen: since when its notice is known here; counts where the notice does not say.
    """
    notices = []
    for taint in node.spec.taints or ():
        since = time_or(taint.time_added, seen)
        if taint.key in TAKEN_BACK:
            notices.append(
                InterruptionNotice(taint.key, since + TAKEN_BACK[taint.key], tainted=taint.effect != "PreferNoSchedule")
            )
        elif taint.key in DRAINED_BY_OTHERS:
            notices.append(InterruptionNotice(taint.key, since + _DRAIN_SECONDS, ours=False))
    for each in node.status.conditions or ():
        if (each.type, each.status) == (_AZURE_CONDITION, "True") and each.reason in _AZURE_REASONS:
            ends = time_or(each.last_transition_time, seen) + _AZURE_SECONDS
            notices.append(InterruptionNotice(f"{each.type}: {each.reason}", ends, tainted=False))
    said = (node.metadata.annotations or {}).get(INTERRUPTED_AT)
    if said is not None and (ends := time_or(said, -1.0)) >= 0:
        notices.append(InterruptionNotice(INTERRUPTED_AT, ends, tainted=False))
    return min(notices, key=lambda each: (not each.ours, each.ends), default=None)


def is_taken_back(node: Node, seen: float) -> bool:
    """The cloud has announced that it takes the machine of this node."""
    notice = notice_of(node, seen)
    return notice is not None and notice.ours


def ending(notice: InterruptionNotice, grace: float, now: float) -> tuple[float, int]:
    """When a pod must get SIGTERM, in seconds from now, and the grace that it gets then, whole seconds of at least 1.

    A pod works on for as long as its own grace period allows.

    Args:
        notice: of its node.
        grace: its ``terminationGracePeriodSeconds``.
        now: seconds since 1970.
    """
    left = notice.ends - MARGIN - now
    wait = max(0.0, left - grace)
    return wait, max(1, int(min(grace, left - wait)))


REASON = "MachineTakenBack"
"""Reason of the condition DisruptionTarget, and of events."""
_INDEX = "pods-of-node"
_GRACE = 30.0
_LOOK_AGAIN = 10.0


class InterruptionController(Controller):
    """Looks at nodes with a notice, each by itself."""

    name = "interruption-controller"
    workers = 4

    def __init__(self, recorder: Recorder) -> None:
        """``recorder`` records events on nodes and pods."""
        self._recorder = recorder
        # By node: since when its notice is known here.
        self._seen: dict[str, float] = {}

    def setup(self, context: Context) -> None:
        """Watch nodes; their pods are looked up."""
        self._nodes = context.watch(NODES, when=_changes_notice)
        self._pods = context.informer(PODS)
        index(self._pods, _INDEX, lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
        index(self._pods, POD_INDEX, groups_of)

    async def reconcile(self, key: str) -> float | None:
        """Tell the pods of one node and of their gangs, and end those on the node when it is time."""
        node, now = self._nodes.get(key), self._clock.time()
        notice = notice_of(node, self._seen.setdefault(key, now)) if node is not None else None
        if node is None or notice is None:
            self._seen.pop(key, None)
            return None
        if now >= notice.ends and _is_silent(node):
            return await self._delete_pods_of(key)
        await self._keep_away(node, notice)
        pods = [pod for pod in self._pods.by_index(_INDEX, key) if not has_ended(pod) and not is_of_node(pod)]
        mates = {
            mate.key: mate
            for group in {pod_group_of(pod) for pod in pods} - {""}
            for mate in self._pods.by_index(POD_INDEX, group)
            if mate.spec.node_name and not has_ended(mate)
        }
        # Until its time is over, a notice of eviction that is taken back may have taken the time along; after it, it is
        # looked at whether the machine has gone.
        again: float | None = (
            (sooner(notice.ends - now, _LOOK_AGAIN) if now < notice.ends else _LOOK_AGAIN) if pods else None
        )
        for pod in (mates | {pod.key: pod for pod in pods}).values():
            try:
                await self._tell(pod, node, notice, now)
                if notice.ours and pod.spec.node_name == key and not is_deleting(pod):
                    again = sooner(again, await self._end(pod, notice, now))
            except NotFound:
                continue
            except ApiError as error:
                again = sooner(again, 1.0)
                await self._context.tell(PODS, pod, error)
        return again

    async def _delete_pods_of(self, name: str) -> float | None:
        """Delete the pods of a machine that has gone as announced: no agent is left to end them.

        Without this they would count as running for minutes, and their gangs would wait for them.
        """
        again: float | None = None
        for pod in self._pods.by_index(_INDEX, name):
            meta = pod.metadata
            if has_ended(pod) or is_of_node(pod):
                continue
            try:
                await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0)
            except (NotFound, Conflict):
                continue
            except ApiError as error:
                again = _LOOK_AGAIN
                await self._context.tell(PODS, pod, error)
            else:
                self._recorder.event(pod, "Warning", REASON, f"node {name} has gone, as announced: the pod goes, too")
        return again

    async def _keep_away(self, node: Node, notice: InterruptionNotice) -> None:
        """Let no new pods come to the node, where the notice does not do that by itself."""
        taints = node.spec.taints or []
        if notice.tainted or any(each.key == INTERRUPTED for each in taints):
            return
        desired = [*taints, Taint(key=INTERRUPTED, effect="NoSchedule", time_added=rfc3339(self._clock.time()))]
        patch = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [msgspec.to_builtins(each) for each in desired]},
        }
        await self._client.patch(NODES, node.metadata.name, patch)

    async def _tell(self, pod: Pod, node: Node, notice: InterruptionNotice, now: float) -> None:
        """Say on the pod, once, until when its work must be saved."""
        meta, until = pod.metadata, rfc3339(notice.ends)
        said = (meta.annotations or {}).get(CHECKPOINT_BEFORE)
        if said is not None and said <= until:
            return
        patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "annotations": {CHECKPOINT_BEFORE: until}}}
        await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)
        left = format_duration(notice.ends - now)
        text = f"node {node.metadata.name} goes in {left} ({notice.source}): work must be saved before {until}"
        self._recorder.event(pod, "Warning", REASON, text)

    async def _end(self, pod: Pod, notice: InterruptionNotice, now: float) -> float | None:
        """Delete the pod when it is time; answers in how many seconds it will be."""
        meta, own = pod.metadata, pod.spec.termination_grace_period_seconds
        wait, grace = ending(notice, _GRACE if own is None else float(own), now)
        if wait > 0:
            return wait
        if not is_disrupted(pod):
            patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": _disrupted(pod, notice, now)}}
            await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace, subresource="status")
        await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=grace)
        return None


def _changes_notice(_: EventType, new: Node, old: Node | None) -> bool:
    return any(node is not None and notice_of(node, 0.0) is not None for node in (new, old))


def _is_silent(node: Node) -> bool:
    """Nothing has been heard of its kubelet for a while; it may say so in time that it is about to end."""
    return any(each.type == "Ready" and each.status == "Unknown" for each in node.status.conditions or ())


def _disrupted(pod: Pod, notice: InterruptionNotice, now: float) -> Sequence[dict[str, Any]]:
    others = [msgspec.to_builtins(each) for each in pod.status.conditions or () if each.type != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": REASON,
        "message": f"The cloud takes the machine back: {notice.source}",
        "lastTransitionTime": rfc3339(now),
    }
    return [*others, condition]
