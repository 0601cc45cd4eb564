"""All writers of one client share its pace: one that finds the API server slow slows the others down."""

from __future__ import annotations

import asyncio

import pytest

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.base import Object, ObjectMeta
from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, Queue, QueueSpec
from unisono.api.kinds import POD_GROUPS, PODS, QUEUES
from unisono.controllers.queue import QueueController
from unisono.kube.controller import Manager


class Silent:
    """A recorder that keeps nothing."""

    def event(self, obj: Object, type: str, reason: str, message: str) -> None:
        """Do nothing."""


async def _advance(client: MemoryClient, seconds: float) -> None:
    await client.clock.advance(seconds)
    await settle(50)


@pytest.mark.parametrize(("latency", "least", "most"), [(0.0, 7, 9), (0.4, 1, 3)], ids=["calm", "slow"])
async def test_pods_that_are_created_slowly_make_counts_of_queues_rarer(latency: float, least: int, most: int) -> None:
    client = MemoryClient()
    client.put(QUEUES, Queue(metadata=ObjectMeta(name="root"), spec=QueueSpec()))
    client.put(QUEUES, Queue(metadata=ObjectMeta(name="default"), spec=QueueSpec(parent="root")))
    running = asyncio.create_task(Manager(client, clock=client.clock).run([QueueController(Silent())]))
    await settle(200)

    client.latency = latency
    for number in range(40):  # another controller makes pods
        made = asyncio.create_task(client.create(PODS, Pod(metadata=ObjectMeta(name=f"p{number}", namespace="ns"))))
        await _advance(client, latency)
        await made
    client.latency = 0.0

    def counted() -> int:
        return sum(1 for write in client.writes if (write.key, write.subresource) == ("default", "status"))

    before = counted()
    for number in range(8):
        group = PodGroup(metadata=ObjectMeta(name=f"g{number}", namespace="ns"), spec=PodGroupSpec(queue="default"))
        client.put(POD_GROUPS, group)
        await _advance(client, 1.0)
    assert least <= counted() - before <= most
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
