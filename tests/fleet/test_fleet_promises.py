"""Room that a member holds for a part is never counted against the part, whatever decides there, and ends with it.

The members are whole control planes: what is reserved is opened, admitted and placed by the same count of room.
"""

from __future__ import annotations

import pytest
from fleet_world import fleet

from unisono.api import gang_parts
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import CONFIG_MAPS, JOBS, PODS

ADMIT = "enqueue, allocate, backfill"
EVICT = "enqueue, allocate, preempt, reclaim, backfill"


def conf(actions: str, *plugins: str) -> str:
    lines = [f'actions: "{actions}"', "tiers:", "- plugins:"]
    return "\n".join(lines + [f"  - name: {name}" for name in ("priority", "gang", "conformance", *plugins)]) + "\n"


CONFIGS = {
    "default": "",
    "binpack": conf(ADMIT, "overcommit", "predicates", "binpack"),
    "proportion": conf(ADMIT, "proportion", "predicates", "nodeorder"),
    "capacity": conf(EVICT, "overcommit", "capacity", "predicates", "nodeorder"),
    "evicting": conf(EVICT, "overcommit", "drf", "predicates", "proportion", "binpack"),
}


def held(world) -> list[str]:
    """Keys of what members hold."""
    found = [obj for client in world.members.values() for obj in client.objects(CONFIG_MAPS)]
    return [key for obj in found if obj.metadata.name == gang_parts.NAME for key in obj.data or {}]


@pytest.mark.parametrize(
    ("config", "members", "parts"),
    [
        ("default", [[4], [8]], [4, 5]),
        ("default", [[4], [8]], [1, 8]),
        ("default", [[4, 8], [8], [4]], [12, 8, 4]),
        ("binpack", [[4], [8]], [4, 8]),
        ("proportion", [[4, 4], [8]], [7, 8]),
        ("capacity", [[8], [4], [4], [4]], [5, 4, 4, 3]),
        ("evicting", [[4], [8]], [3, 8]),
    ],
)
async def test_every_part_that_fits_an_empty_member_runs(config: str, members: list[list[int]], parts: list[int]):
    names = [f"m{at}" for at in range(len(members))]
    async with fleet(*names, config=CONFIGS[config]) as world:
        for name, gpus in zip(names, members, strict=True):
            await world.whole(name, gpus, CONFIGS[config])
        world.start()
        await world.run(15)
        await world.hyper("h", *({"name": f"p{at}", "pods": pods} for at, pods in enumerate(parts)))
        for _ in range(30):
            await world.run_whole(1)
            if not sum(len(client.objects(PODS)) for client in world.members.values()):
                phases = {job.status.state.phase for job in world.hub_client.objects(JOBS)}
                assert "Running" not in phases
        assert sum(world.running().values()) == sum(parts)
        assert world.record("h").number == 1
        assert {job.status.state.phase for job in world.hub_client.objects(JOBS)} == {"Running"}


async def test_what_is_held_for_a_hyper_job_ends_when_it_is_deleted():
    async with fleet("a", "b") as world:
        await world.whole("a", [4])
        await world.whole("b", [8])
        world.start()
        await world.run(15)
        world.refuse("b", "create", "jobs")
        await world.hyper("h", {"name": "p", "pods": 4}, {"name": "q", "pods": 8})
        await world.run_whole(10)
        assert len(held(world)) == 2
        assert {job.status.state.phase for job in world.members["a"].objects(JOBS)} == {"Pending"}
        await world.hub_client.delete(HYPER_JOBS, "h", "default")
        await world.run_whole(2)
        assert held(world) == []
