"""The Numatopology object of this machine, kept as the machine is, also when a user deletes it."""

from __future__ import annotations

from collections.abc import Callable

from unisono.agent.cpus.book import CpuBook
from unisono.agent.cpus.described import NodeCpus, bring_up_to_date, numatopology, spec_of
from unisono.agent.limits.watch_loop import WatchLoop
from unisono.api.core import Pod
from unisono.api.kinds import NODES, NUMATOPOLOGIES
from unisono.api.nodeinfo import ContainerAllocation, PodAllocation
from unisono.errors import NotFound
from unisono.kube.client import Client
from unisono.kube.clock import Clock

LOOK_SECONDS = 1.0
_REFRESH_SECONDS = 60.0


def cpus_of(book: CpuBook, pods: Callable[[str], Pod | None]) -> NodeCpus:
    """What the machine's CPUs look like, which are free, and which containers have the others.

    Args:
        book: its CPUs.
        pods: the pod of a uid.
    """
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
    return NodeCpus(
        cpu_policy=book.policies.cpu,
        topology_policy=book.policies.topology,
        reserved=str(book.policies.reserved) if book.pins else None,
        free=book.shared,
        detail=book.detail,
        allocations=allocations,
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
        wanted = spec_of(cpus_of(self._book, self._pods))
        try:
            found = await self._client.get(NUMATOPOLOGIES, self._name)
        except NotFound:
            await self._client.create(NUMATOPOLOGIES, numatopology(node, wanted))
        else:
            await bring_up_to_date(self._client, found, wanted)
        self._written, self._at = given, now
