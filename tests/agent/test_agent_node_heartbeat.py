"""Heartbeats of a node on a virtual clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.machine.facts import this_machine
from unisono.agent.node import NodeRegistration, build_node
from unisono.api.core import NodeCondition
from unisono.api.kinds import LEASES, NODES


def condition(client: MemoryClient) -> str:
    node = client.find(NODES, "here")
    assert node is not None
    return next(each.status for each in node.status.conditions or () if each.type == "Ready")


async def test_a_node_that_was_marked_as_lost_comes_back(tmp_path: Path) -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    node = build_node("here", this_machine(tmp_path), now=clock.time())
    registration = NodeRegistration(client, node, clock)
    await registration.register()
    task = asyncio.create_task(registration.run())
    try:
        before = client.objects(LEASES)[0].spec.renew_time
        await clock.pause(8 * 3600)
        lost = client.find(NODES, "here")
        assert lost is not None
        for each in lost.status.conditions or ():
            each.status = "Unknown"
        client.put(NODES, lost)
        await clock.advance(11)
        assert condition(client) == "True"
        assert (client.objects(LEASES)[0].spec.renew_time or "") > (before or "")

        # A node that leaves stays NotReady: heartbeats must not contradict that.
        await registration.leave()
        await clock.advance(30)
        assert condition(client) == "False"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_conditions_of_others_stay(tmp_path: Path) -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    registration = NodeRegistration(client, build_node("here", this_machine(tmp_path), now=clock.time()), clock)
    await registration.register()
    node = client.find(NODES, "here")
    assert node is not None
    foreign = NodeCondition(type="GpuHealthy", status="False", reason="XidErrors")
    node.status.conditions = [*(node.status.conditions or ()), foreign]
    client.put(NODES, node)
    await registration.report_disk(True)
    await registration.register()
    await registration.leave()
    found = client.find(NODES, "here")
    assert found is not None
    statuses = {each.type: each.status for each in found.status.conditions or ()}
    assert statuses == {"GpuHealthy": "False", "DiskPressure": "True", "Ready": "False"}
