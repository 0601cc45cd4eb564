"""A scheduler of somebody else's: it places pods that name it at random, by what it has seen, and may preempt."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Pod, PodSpec, ResourceRequirements
from unisono.api.kinds import NODES, PODS
from unisono.api.quantity import parse_quantity
from unisono.errors import ApiError
from unisono.kube.client import Client
from unisono.kube.informer import Informer

NAME = "somebody-else"
_OVER = ("Succeeded", "Failed")


def foreign_pod(
    namespace: str, cpu: str, name: str = "foreign", *, seconds: float | None = None, priority: str = ""
) -> Pod:
    """One that somebody else schedules; it runs for ``seconds`` (None: until it is deleted)."""
    notes = {} if seconds is None else {"unisono.io/run-seconds": str(seconds)}
    container = Container(name="main", image="busybox:1", resources=ResourceRequirements(requests={"cpu": cpu}))
    spec = PodSpec(
        containers=[container],
        scheduler_name=NAME,
        restart_policy="Never",
        priority_class_name=priority or None,
        termination_grace_period_seconds=0,
    )
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, annotations=notes), spec=spec)


class Foreign:
    """Runs until cancelled.

    Attributes:
        preempted: how often it took a node's pods away for each of its own pods, by name.

    """

    def __init__(self, client: Client, namespace: str, seed: int, *, preempts: bool = False) -> None:
        self._client, self._namespace, self._rng, self._preempts = client, namespace, random.Random(seed), preempts
        self._pods: Informer[Pod] = Informer(client, PODS, namespace)
        self._nodes = Informer(client, NODES)
        self._assumed: dict[str, str] = {}
        self.preempted: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._pods.on_change(lambda *_: self._changed.set())
        self._nodes.on_change(lambda *_: self._changed.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._nodes.run())
            await self._pods.synced.wait()
            await self._nodes.synced.wait()
            while True:
                self._changed.clear()
                waiting = [pod for pod in self._pods.items() if self._waits(pod)]
                self._rng.shuffle(waiting)
                for pod in waiting:
                    await self._place(pod)
                    await asyncio.sleep(self._rng.random() * 0.02)
                await self._changed.wait()

    def _waits(self, pod: Pod) -> bool:
        ours = pod.spec.scheduler_name == NAME and not pod.metadata.deletion_timestamp
        return ours and not self._place_of(pod) and pod.status.phase not in _OVER

    def _place_of(self, pod: Pod) -> str:
        return pod.spec.node_name or self._assumed.get(pod.metadata.uid or "", "")

    def _free(self) -> dict[str, float]:
        free = {
            node.metadata.name: float(parse_quantity((node.status.allocatable or {})["cpu"]))
            for node in self._nodes.items()
            if not node.spec.taints
        }
        for pod in self._pods.items():
            if self._place_of(pod) in free and pod.status.phase not in _OVER:
                free[self._place_of(pod)] -= _cpu(pod)
        return free

    async def _place(self, pod: Pod) -> None:
        free = self._free()
        room = sorted(name for name, cpu in free.items() if cpu >= _cpu(pod))
        name, uid = pod.metadata.name, pod.metadata.uid or ""
        if room:
            node = self._rng.choice(room)
            try:
                await self._client.bind(self._namespace, name, node, uid=uid)
            except ApiError:
                return  # it was deleted meanwhile
            self._assumed[uid] = node
        elif self._preempts and free and not pod.status.nominated_node_name:
            await self._take(pod, self._rng.choice(sorted(free)))

    async def _take(self, pod: Pod, node: str) -> None:
        self.preempted[pod.metadata.name] += 1
        status = {"status": {"nominatedNodeName": node}}
        await self._client.patch(PODS, pod.metadata.name, status, namespace=self._namespace, subresource="status")
        for victim in self._pods.items():
            if victim.spec.node_name == node and victim.spec.scheduler_name != NAME:
                await self._client.delete(PODS, victim.metadata.name, self._namespace, grace_seconds=0)


def _cpu(pod: Pod) -> float:
    requests = (one.resources.requests or {} for one in pod.spec.containers or () if one.resources)
    return float(sum(parse_quantity(each["cpu"]) for each in requests if "cpu" in each))
