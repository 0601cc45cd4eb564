"""A member that has Volcano and nothing of Unisono: no HyperNodes, no training jobs, no kinds of the fleet."""

from __future__ import annotations

import msgspec
from fleet_world import World, fleet, node, template

from unisono.api.annotations import MEMBER_REASONS
from unisono.api.kind_families import PYTORCH_JOBS
from unisono.api.kinds import JOBS, QUEUES
from unisono.errors import NotFound

SERVED = {
    "nodes",
    "pods",
    "namespaces",
    "configmaps",
    "events",
    JOBS.plural,
    QUEUES.plural,
    "podgroups",
    "commands",
}


def only_volcano(world: World, name: str) -> None:
    """From now on the member serves what Kubernetes and Volcano 1.8 serve."""
    client = world.members[name]
    before = client.interceptor

    def check(verb: str, plural: str, *rest: str) -> None:
        before(verb, plural, *rest)
        if plural not in SERVED:
            raise NotFound("the server could not find the requested resource")

    client.interceptor = check


async def test_jobs_and_queues_go_to_a_member_that_has_only_volcano():
    async with fleet("volcano", "ours") as world:
        only_volcano(world, "volcano")
        world.queue("q", capability={"nvidia.com/gpu": "6", "cpu": "100"})
        world.join("volcano", [node("n1", 8)])
        world.join("ours", [node("n1", 2)])
        world.start()
        await world.job("train", 4, queue="q")
        await world.run(15)
        assert world.where() == {"train": "volcano"}
        assert world.copies()["volcano"] == ["train"]
        assert {queue.metadata.name for queue in world.members["volcano"].objects(QUEUES)} == {"q"}
        world.play()
        world.say("volcano", "train", {"state": {"phase": "Running"}, "running": 4})
        await world.run(10)
        assert world.hub_client.find(JOBS, "default/train").status.running == 4
        world.say("volcano", "train", {"state": {"phase": "Completed"}, "succeeded": 4})
        await world.run(10)
        assert world.hub_client.find(JOBS, "default/train").status.state.phase == "Completed"


async def test_a_kind_that_a_member_does_not_serve_goes_to_one_that_does():
    async with fleet("volcano", "ours") as world:
        only_volcano(world, "volcano")
        world.join("volcano", [node("n1", 8)])
        world.join("ours", [node("n1", 8)])
        world.start()
        specs = {"Worker": {"replicas": 8, "template": template(1)}}
        await world.create(
            PYTORCH_JOBS,
            {"metadata": {"name": "pt", "namespace": "default"}, "spec": {"pytorchReplicaSpecs": specs}},
        )
        await world.run(30)
        assert world.where(PYTORCH_JOBS) == {"pt": "ours"}
        await world.job("other", 8)
        await world.run(30)
        assert world.where() == {"other": "volcano"}


async def test_a_kind_that_no_member_serves_waits_and_says_why():
    async with fleet("volcano") as world:
        only_volcano(world, "volcano")
        world.join("volcano", [node("n1", 8)])
        world.start()
        specs = {"Worker": {"replicas": 1, "template": template(1)}}
        await world.create(
            PYTORCH_JOBS,
            {"metadata": {"name": "pt", "namespace": "default"}, "spec": {"pytorchReplicaSpecs": specs}},
        )
        await world.run(60)
        assert world.where(PYTORCH_JOBS) == {"pt": ""}
        told = msgspec.json.decode(world.group("pt").metadata.annotations[MEMBER_REASONS])
        assert told == {"volcano": "its API has no pytorchjobs.kubeflow.org"}
