"""Gangs over members that grow: all parts get their machines or none, and the machines are counted once."""

from __future__ import annotations

from fleet_world import fleet
from test_fleet_machines import group, told

from unisono.api.annotations import MACHINES
from unisono.api.kinds import JOBS


def coming(world, name):
    """Machines that parts of a HyperJob wait for, by part."""
    return {part: dict(each.machines.machines) for part, each in world.record(name).parts.items() if each.machines}


def places(world, name):
    return {part: each.cluster for part, each in world.record(name).parts.items()}


async def test_a_part_goes_to_a_member_from_zero_nodes_and_the_gang_starts_whole():
    async with fleet("home", "cloud") as world:
        await world.whole("home", [8])
        await world.whole("cloud", [], groups=[group()])
        world.start()
        await world.run_whole(15)
        await world.hyper("llm", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
        seen = set()
        for _ in range(150):
            await world.run_whole(1)
            seen.add(tuple(sorted(world.running().items())))
            if world.record("llm").parts and not world.running()["cloud"]:
                texts = told(world, "Reserving")
        assert world.running() == {"home": 1, "cloud": 1}
        # Nothing runs in the room that is there before the machines have come.
        assert (("cloud", 0), ("home", 1)) not in seen
        assert sorted(places(world, "llm").values()) == ["cloud", "home"]
        part = next(name for name, at in places(world, "llm").items() if at == "cloud")
        waits = "which waits for 1 machine of pool default/spot in member cloud, about 80 seconds, 2 an hour"
        assert f"{part} in cloud, {waits}" in texts[-1]
        assert f"sent to cloud: {waits[6:]}" in told(world, "Dispatched")
        assert MACHINES not in (world.hub_client.find(JOBS, f"default/{part}").metadata.annotations or {})
        assert not [name for name in world.hub.members_state.feed.state.nodes.names if "+" in name]
        assert world.hub.machines.summary("cloud")[0].promised == 0
