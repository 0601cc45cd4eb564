"""A member is sent no more than it has room for, although its scheduler takes other nodes than the hub has chosen."""

from __future__ import annotations

import msgspec
from fleet_world import fleet, node

from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodStatus
from unisono.api.kinds import JOBS, PODS


def play_elsewhere(world, job: str, at: str) -> None:
    """The member starts one job, on a node of its own choice; the node has not started its pods yet."""
    for client in world.members.values():
        for copied in client.objects(JOBS):
            if copied.metadata.name != job:
                continue
            task = copied.spec.tasks[0]
            for index in range(task.replicas):
                meta = task.template.metadata
                client.put(
                    PODS,
                    Pod(
                        metadata=ObjectMeta(
                            name=f"{job}-w-{index}",
                            namespace="default",
                            labels=meta.labels,
                            annotations=meta.annotations,
                        ),
                        spec=msgspec.structs.replace(task.template.spec, node_name=at),
                        status=PodStatus(phase="Pending"),
                    ),
                )


async def test_jobs_on_their_way_keep_their_room():
    async with fleet("a") as world:
        world.join("a", [node(f"n{number}", 4) for number in range(4)])
        world.start()
        for number in range(4):
            await world.job(f"j{number}", 4)
        await world.run(20)
        assert list(world.where().values()) == ["a"] * 4
        # All four are on their way, one on each node; the member starts them in another order, one after the other.
        for number in range(4):
            play_elsewhere(world, f"j{number}", f"n{(number + 1) % 4}")
            await world.job(f"late{number}", 2)
            await world.run(10)
            assert not any(place for name, place in world.where().items() if name.startswith("late")), number
