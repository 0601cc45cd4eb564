"""The Numatopology object of this machine, kept as the machine is, also when a user deletes it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unisono.agent.cpus.book import CpuBook
from unisono.agent.limits.watch_loop import WatchLoop
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.core import Node, Pod
from unisono.api.kinds import NODES, NUMATOPOLOGIES
from unisono.api.nodeinfo import (
    ContainerAllocation,
    CPUInfo,
    Numatopology,
    NumatopologySpec,
    PodAllocation,
    ResourceInfo,
)
from unisono.api.numa.cpus import write_cpus
from unisono.errors import NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock

LOOK_SECONDS = 1.0
_REFRESH_SECONDS = 60.0


def numatopology(node: Node, book: CpuBook, pods: Callable[[str], Pod | None]) -> Numatopology:
    """What the node's CPUs look like, which are free, and who has the others.

    Args:
        node: the node; the object goes with it.
        book: its CPUs.
        pods: the pod of a uid.
    """
    meta = node.metadata
    owner = OwnerReference(api_version="v1", kind="Node", name=meta.name, uid=meta.uid or "", controller=True)
    allocations = []
    for uid in sorted(book.given):
        pod = pods(uid)
        containers = [ContainerAllocation(name, {"cpu": cpus}) for name, cpus in sorted(book.recorded(uid).items())]
        allocations.append(
            PodAllocation(
                uid=uid,
                name=pod.metadata.name if pod else None,
                namespace=pod.metadata.namespace if pod else None,
                container_allocations=containers,
            )
        )
    return Numatopology(
        metadata=ObjectMeta(name=meta.name, owner_references=[owner]),
        spec=NumatopologySpec(
            policies={"CPUManagerPolicy": book.policies.cpu, "TopologyManagerPolicy": book.policies.topology},
            res_reserved={"cpu": str(book.policies.reserved)} if book.pins else {},
            numares={"cpu": ResourceInfo(allocatable=write_cpus(book.shared), capacity=len(book.detail))},
            cpu_detail={str(cpu): CPUInfo(*place) for cpu, place in sorted(book.detail.items())},
            pod_allocations=allocations,
        ),
    )


class NumaPublisher:
    """Writes the object when something has changed, and looks after it once a minute.

    Args:
        client: the API.
        clock: paces the looks.
        name: of the node.
        book: its CPUs.
        pods: the pod of a uid.
    """

    def __init__(
        self, client: Client, clock: Clock, name: str, book: CpuBook, pods: Callable[[str], Pod | None]
    ) -> None:
        self._client, self._clock, self._name, self._book, self._pods = client, clock, name, book, pods
        self._written: dict[str, dict[str, int]] | None = None
        self._at = 0.0
        self._loop: WatchLoop[str, None] = WatchLoop("numatopology", clock, LOOK_SECONDS, self._look)
        if book.topology is not None:
            self._loop.add(name, None)

    async def run(self) -> None:
        """Look until cancelled."""
        await self._loop.run()

    async def _look(self, _: object) -> None:
        now, given = self._clock.monotonic(), dict(self._book.given)
        if given == self._written and now - self._at < _REFRESH_SECONDS:
            return
        try:
            node = await self._client.get(NODES, self._name)
        except NotFound:
            return
        wanted = numatopology(node, self._book, self._pods)
        try:
            found = await self._client.get(NUMATOPOLOGIES, self._name)
        except NotFound:
            await self._client.create(NUMATOPOLOGIES, wanted)
        else:
            old, new = msgspec.to_builtins(found.spec), msgspec.to_builtins(wanted.spec)
            if old != new:
                gone = {
                    field: dict.fromkeys(set(old.get(field) or ()) - set(new[field]))
                    for field in ("cpuDetail", "resReserved", "numares")
                }
                body = {name: {**value, **gone[name]} if name in gone else value for name, value in new.items()}
                await self._client.patch(NUMATOPOLOGIES, self._name, {"spec": body})
        self._written, self._at = given, now
