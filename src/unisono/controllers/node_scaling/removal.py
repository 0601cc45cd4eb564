"""What giving a machine back writes: a taint that keeps pods away, evictions, and the choice of the Machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from unisono.api.annotations import SCALE_DOWN
from unisono.api.core import Node, Pod, Taint
from unisono.api.groups.autoscaling import DELETE_MACHINE, MACHINES, Machine
from unisono.api.kinds import NODES
from unisono.api.pod_states import has_ended
from unisono.api.times import rfc3339
from unisono.controllers.node_scaling.holding import is_of_node
from unisono.controllers.pod_facts import is_deleting
from unisono.controllers.recorder import Recorder
from unisono.errors import ApiError
from unisono.kube.client import Client


class Removal:
    """The steps, each of which is tried again in the next round when the server refuses it.

    Args:
        client: the API.
        recorder: tells on the node and its pods.
        now: seconds since 1970.

    """

    def __init__(self, client: Client, recorder: Recorder, now: float) -> None:
        self._client, self._recorder, self._now = client, recorder, now

    async def mark(self, node: Node | None, *, on: bool) -> None:
        """Keep new pods away from the node, or let them in once more."""
        if node is None:
            return
        others = [each for each in node.spec.taints or () if each.key != SCALE_DOWN]
        mine = [Taint(key=SCALE_DOWN, effect="NoSchedule", time_added=rfc3339(self._now))] if on else []
        patch: dict[str, Any] = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": [msgspec.to_builtins(each) for each in (*others, *mine)] or None},
        }
        try:
            await self._client.patch(NODES, node.metadata.name, patch)
        except ApiError:
            return
        text = "its machine is not needed and will be given back" if on else "its machine is needed after all"
        self._recorder.event(node, "Normal", "ScaleDown" if on else "ScaleDownCancelled", text)

    async def drain(self, node: Node | None, pods: Iterable[Pod]) -> None:
        """Evict the pods that the node still runs; a disruption budget that is spent is asked again later."""
        if node is None:
            return
        for pod in pods:
            if pod.spec.node_name != node.metadata.name or has_ended(pod) or is_deleting(pod) or is_of_node(pod):
                continue
            meta = pod.metadata
            try:
                await self._client.evict(meta.namespace or "", meta.name, uid=meta.uid)
            except ApiError:
                continue
            self._recorder.event(pod, "Normal", "ScaleDown", f"moved: node {node.metadata.name} is given back")

    async def choose(self, machine: Machine) -> bool:
        """Have this Machine deleted first when there are fewer replicas; answers whether that is written."""
        meta = machine.metadata
        patch = {"metadata": {"annotations": {DELETE_MACHINE: rfc3339(self._now)}}}
        try:
            await self._client.patch(MACHINES, meta.name, patch, namespace=meta.namespace)
        except ApiError:
            return False
        return True


def is_going(machine: Machine) -> bool:
    """The machine is deleted, or was chosen to be."""
    meta = machine.metadata
    return meta.deletion_timestamp is not None or DELETE_MACHINE in (meta.annotations or {})
