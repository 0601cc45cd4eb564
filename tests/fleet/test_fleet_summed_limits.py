"""Queues of a hub whose limits are the sum of what the members say."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import GPU, World, fleet, node

from unisono.api.annotations import LIMITS_FROM
from unisono.api.base import ObjectMeta
from unisono.api.decode import decode
from unisono.api.groups.scheduling import Guarantee, Queue, QueueSpec
from unisono.api.kinds import QUEUES
from unisono.api.validation import validate
from unisono.fleet.queues import summed


def own(world: World, name: str, gpus: int) -> None:
    """A member's administrator gives its users so much."""
    spec = QueueSpec(weight=1, capability={"cpu": "64", GPU: str(gpus)}, deserved={GPU: str(gpus)})
    world.members[name].put(QUEUES, Queue(metadata=ObjectMeta(name="team"), spec=spec))


def limits(world: World) -> tuple[dict[str, str] | None, dict[str, str] | None]:
    spec = world.hub_client.find(QUEUES, "team").spec
    return spec.capability, spec.deserved


async def test_limits_follow_the_members():
    async with fleet("a", "b") as world:
        world.queue("team")
        queue = world.hub_client.find(QUEUES, "team")
        meta = msgspec.structs.replace(queue.metadata, annotations={LIMITS_FROM: "members"})
        world.hub_client.put(QUEUES, msgspec.structs.replace(queue, metadata=meta))
        for name, gpus in (("a", 2), ("b", 3)):
            own(world, name, gpus)
            world.join(name, [node("n1", 8)])
        world.start()
        await world.run(30)
        assert limits(world) == ({"cpu": "128", GPU: "5"}, {GPU: "5"})
        for number in range(4):
            await world.job(f"j{number}", 2, queue="team")
        await world.run(30)
        assert sum(len(names) for names in world.copies().values()) == 2, "4 of 5 GPUs, and no more"
        own(world, "b", 6)
        await world.run(40)
        assert limits(world) == ({"cpu": "128", GPU: "8"}, {GPU: "8"})
        assert sum(len(names) for names in world.copies().values()) == 4
        world.lose("b")
        await world.run(60)
        assert limits(world) == ({"cpu": "128", GPU: "8"}, {GPU: "8"}), "what a lost member said stands"
        generation = world.hub_client.find(QUEUES, "team").metadata.generation
        await world.run(120)
        assert world.hub_client.find(QUEUES, "team").metadata.generation == generation
        assert world.members["a"].find(QUEUES, "team").spec.capability == {"cpu": "64", GPU: "2"}, "it is the member's"


def test_what_one_member_does_not_limit_has_no_limit():
    some, more = QueueSpec(capability={"cpu": "8", GPU: "4"}), QueueSpec(capability={"cpu": "500m"})
    assert summed([some, more])["capability"] == {"cpu": "8500m"}
    assert summed([some, QueueSpec()])["capability"] is None
    assert summed([])["capability"] == {"cpu": "0", "memory": "0"}


@pytest.mark.parametrize(
    ("lie", "told"), [("-5", "8"), ("-1E18", "8"), ("1E18", "72057594037927936m"), ("1e-400", "8001m"), ("0", "8")]
)
def test_a_member_that_lies_takes_nothing_from_others_and_stops_nothing(lie: str, told: str) -> None:
    def spec(amount: str) -> QueueSpec:
        return QueueSpec(
            capability={"cpu": amount}, deserved={"cpu": amount}, guarantee=Guarantee(resource={"cpu": amount})
        )

    found = summed([spec("8"), spec(lie)])
    assert (found["capability"], found["deserved"], found["guarantee"]) == (
        {"cpu": told},
        {"cpu": told},
        {"resource": {"cpu": told}},
    )
    meta = {"metadata": {"name": "q"}, "spec": found}
    assert not validate(QUEUES, decode(QUEUES, meta).obj, None), "the hub's API takes it"
