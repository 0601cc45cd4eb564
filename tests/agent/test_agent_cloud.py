"""The simulated cloud gives machines after their boot time, takes back chosen ones, and survives restarts."""

from __future__ import annotations

from typing import Any

import pytest

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.simulated.cloud import SimulatedCloud
from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.groups.autoscaling import MACHINE_DEPLOYMENTS, MACHINES
from unisono.api.kinds import NODES
from unisono.api.times import rfc3339
from unisono.controllers.node_scaling.provisioning import pool_of
from unisono.errors import ConfigError

GROUP: dict[str, Any] = {
    "name": "burst",
    "min": 1,
    "max": 5,
    "price": 3.5,
    "spot": True,
    "bootSeconds": 30,
    "capacity": {"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": 4},
    "taints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}],
}


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.client = MemoryClient(self.clock)
        self.restart()

    def restart(self) -> None:
        specs = parse_specs([GROUP])
        self.nodes = SimulatedNodes(self.client, specs, self.clock)
        self.cloud = SimulatedCloud(self.client, specs, self.clock, self.nodes)

    async def at(self, seconds: float) -> list[str]:
        await self.clock.advance(seconds)
        await self.cloud._prepare()
        await self.cloud.look()
        await self.cloud.look()
        return sorted(node.metadata.name for node in self.client.objects(NODES))

    async def ask(self, replicas: int) -> None:
        await self.client.patch(MACHINE_DEPLOYMENTS, "burst", {"spec": {"replicas": replicas}}, namespace="default")

    async def ready(self) -> tuple[int | None, int | None]:
        found = await self.client.get(MACHINE_DEPLOYMENTS, "burst", "default")
        return found.status.replicas, found.status.ready_replicas


async def test_machines_come_after_their_boot_time() -> None:
    world = World()
    assert await world.at(0) == []
    assert await world.at(29) == []
    assert await world.at(1) == ["burst-0"]
    await world.ask(3)
    assert await world.at(1) == ["burst-0"]
    assert await world.ready() == (3, 1)
    assert await world.at(30) == ["burst-0", "burst-1", "burst-2"]
    assert await world.ready() == (3, 3)


async def test_the_deployment_says_what_node_scaling_needs() -> None:
    world = World()
    await world.at(0)
    pool = pool_of(await world.client.get(MACHINE_DEPLOYMENTS, "burst", "default"))
    assert pool is not None
    assert (pool.least, pool.most, pool.price, pool.spot) == (1, 5, 3.5, True)
    assert (pool.offers["cpu"], pool.offers["nvidia.com/gpu"]) == (8000, 4000)
    assert [(each.key, each.value, each.effect) for each in pool.taints] == [("spot", "yes", "NoSchedule")]


async def test_the_chosen_machine_goes_first() -> None:
    world = World()
    await world.at(0)
    await world.ask(3)
    await world.at(1)
    await world.at(30)
    notes = {"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "now"}}}
    await world.client.patch(MACHINES, "burst-1", notes, namespace="default")
    await world.ask(2)
    assert await world.at(1) == ["burst-0", "burst-2"]


async def test_a_restart_knows_its_machines() -> None:
    world = World()
    await world.at(0)
    await world.at(30)
    world.restart()
    assert await world.at(1) == ["burst-0"]
    await world.ask(2)
    await world.at(1)
    assert await world.at(30) == ["burst-0", "burst-1"]


async def test_a_spot_machine_is_taken_back_when_it_was_announced_and_another_one_boots() -> None:
    world = World()
    await world.at(0)
    await world.at(30)
    notes = {"unisono.io/interrupted-at": rfc3339(world.clock.time() + 10)}
    await world.client.patch(NODES, "burst-0", {"metadata": {"annotations": notes}})
    assert await world.at(9) == ["burst-0"]
    assert await world.at(2) == []
    assert await world.at(30) == ["burst-1"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max": None}, r"\[0\].max"),
        ({"max": -1}, r"\[0\].max"),
        ({"max": 2.5}, r"\[0\].max"),
        ({"min": 6}, r"\[0\].min: 6 is more than max, 5"),
        ({"price": "cheap"}, r"\[0\].price"),
        ({"spot": "yes"}, r"\[0\].spot"),
        ({"bootSeconds": float("nan")}, r"\[0\].bootSeconds"),
        ({"count": 2}, r"\[0\].count"),
        ({"capacity": {"cpu": 1, "memory": "1Gi", "a.b/c": 1, "d.e/f": 1}}, r"\[0\].capacity"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        parse_specs([GROUP | change])
