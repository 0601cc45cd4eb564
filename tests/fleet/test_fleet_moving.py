"""Jobs that move to a better member, and gangs whose reserved room others take: whole, or not at all."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fleet_world import World, fleet, node, template

from unisono.api.annotations import DRAINED, REBALANCE
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodStatus
from unisono.api.decode import decode
from unisono.api.kind_families import ATTACHED_CLUSTERS, PROPAGATION_POLICIES
from unisono.api.kinds import EVENTS, JOBS, PODS
from unisono.fleet.dispatch.guide import PATIENCE, SETTLED, Seat, why_move
from unisono.fleet.jobs.copies import placement_of

TIERS = {"home": 100.0, "cloud": 0.0}
MARKED = {REBALANCE: "true"}


@pytest.mark.parametrize(
    ("seat", "room", "word"),
    [
        # Without its owner's word nothing moves.
        (Seat("cloud", True, SETTLED, points=TIERS), {"home"}, ""),
        (Seat("cloud", True, 5.0, drained=True), {"home"}, ""),
        (Seat("cloud", False, PATIENCE), {"home"}, ""),
        # Marked: an earlier group, once it has been left alone for a while; a drained member at once.
        (Seat("cloud", True, SETTLED, True, points=TIERS), {"home"}, "earlier group"),
        (Seat("cloud", True, SETTLED - 1, True, points=TIERS), {"home"}, ""),
        (Seat("home", True, SETTLED, True, points=TIERS), {"cloud"}, ""),
        (Seat("cloud", True, SETTLED, True, points=TIERS), set(), ""),
        (Seat("home", True, 5.0, True, drained=True), {"cloud"}, "drained"),
        (Seat("home", True, 5.0, True, drained=True), set(), ""),
        # One that gets no node there.
        (Seat("home", False, PATIENCE, True), {"cloud"}, "no pod of it has got a node"),
        (Seat("home", False, PATIENCE - 1, True), {"cloud"}, ""),
    ],
)
def test_why_a_job_moves(seat, room, word):
    why = why_move(seat, room)
    assert (word in why) if word else why == ""


def occupy(world: World, member: str, gpus: int, name: str = "own") -> None:
    """A pod of the member's own users."""
    value = {
        "metadata": {"name": name, "namespace": "theirs"},
        "spec": {**template(gpus)["spec"], "nodeName": "n1"},
    }
    pod = decode(PODS, value).obj
    world.members[member].put(PODS, msgspec.structs.replace(pod, status=PodStatus(phase="Running")))


def free(world: World, member: str, name: str = "own") -> None:
    world.members[member].remove(PODS, f"theirs/{name}")


async def home_first(world: World) -> None:
    groups = [{"affinityName": "home", "clusterNames": ["home"]}, {"affinityName": "cloud", "clusterNames": ["cloud"]}]
    spec = {
        "resourceSelectors": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}],
        "placement": {"clusterAffinities": groups},
    }
    await world.create(PROPAGATION_POLICIES, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})


def told(world: World, reason: str) -> list[str]:
    return [each.message or "" for each in world.hub_client.objects(EVENTS) if each.reason == reason]


@pytest.mark.parametrize("marked", [False, True])
async def test_a_job_in_the_cloud_comes_home_where_it_may(marked):
    async with fleet("home", "cloud") as world:
        for name in ("home", "cloud"):
            world.join(name, [node("n1", 8)])
        world.start()
        await world.run()
        await home_first(world)
        occupy(world, "home", 8)
        await world.run()
        await world.job("j", 4, annotations=MARKED if marked else {})
        await world.run(60)
        assert world.where()["j"] == "cloud"
        world.play()  # home's own pod has ended as well
        await world.run(300)
        assert world.where()["j"] == "cloud", "it has only just begun"
        for _ in range(24):
            world.play()
            await world.run(30)
        assert world.where()["j"] == ("home" if marked else "cloud")
        assert world.copies()["cloud"] == ([] if marked else ["j"])
        world.play()
        before = placement_of(world.hub_client.find(JOBS, "default/j")).generation
        await world.run(1500)
        assert placement_of(world.hub_client.find(JOBS, "default/j")).generation == before, "it stays there"


@pytest.mark.parametrize(("marked", "room"), [(False, True), (True, True), (True, False)])
async def test_a_drained_member_gives_up_what_may_move_and_has_a_place(marked, room):
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1", 8)])
        world.start()
        await world.run()
        await world.job("j", 4, annotations=MARKED if marked else {})
        await world.run()
        world.play()
        first = world.where()["j"]
        other = "b" if first == "a" else "a"
        if not room:
            occupy(world, other, 8)
        marks = {"metadata": {"annotations": {DRAINED: "true"}}}
        await world.hub_client.patch(ATTACHED_CLUSTERS, first, marks, namespace="fleets")
        await world.run(60)
        if room:
            world.play()  # what is left of the copy ends
        await world.run(30)
        assert world.where()["j"] == (other if marked and room else first)
        assert sum(len(names) for names in world.copies().values()) == 1


async def test_a_marked_job_that_gets_no_node_goes_to_a_member_with_room():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1", 8)])
        world.start()
        await world.run()
        await world.job("j", 4, annotations=MARKED)
        await world.run(20)
        first = world.where()["j"]
        # Its member has given the room to its own users, and no pod of it has a node.
        occupy(world, first, 8)
        await world.run(120)
        assert world.where()["j"] not in ("", first)


STAGE: dict[str, Any] = {"name": "stage", "pods": 4, "replicas": 2}


async def test_a_gang_whose_reserved_room_is_taken_opens_nowhere_and_starts_where_there_is_room():
    async with fleet("a", "b", "c") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1", 4)])
        world.start()
        await world.run()
        # b accepts nothing yet, so the gang stays reserved.
        hold = world.members["b"].interceptor

        def slow(verb: str, plural: str, *rest: str) -> None:
            if (verb, plural) == ("create", "jobs"):
                from unisono.errors import Unavailable

                raise Unavailable("b is slow")
            hold(verb, plural, *rest)

        world.members["b"].interceptor = slow
        await world.hyper("llm", STAGE)
        await world.run(20)
        assert {place.cluster for place in world.record("llm").parts.values()} == {"a", "b"}
        assert all(pods == 0 for jobs in world.pods().values() for pods in jobs.values())
        occupy(world, "a", 3)
        world.members["b"].interceptor = hold
        await world.run(5)
        for _ in range(20):
            await world.run(1)
            sizes = [pods for jobs in world.pods().values() for pods in jobs.values()]
            assert not any(sizes), "a part is open while the room of another is taken"
        assert any("others have taken the room" in text for text in told(world, "Released"))
        assert not world.record("llm").parts
        free(world, "a")
        await world.run(120)
        assert sorted(pods for jobs in world.pods().values() for pods in jobs.values()) == [4, 4]


async def test_a_gang_of_which_a_part_gets_no_nodes_is_released_whole():
    async with fleet("a", "b") as world:
        for name in ("a", "b"):
            world.join(name, [node("n1", 4)])
        world.start()
        await world.run()
        await world.hyper("llm", STAGE)
        await world.run(20)
        assert sorted(pods for jobs in world.pods().values() for pods in jobs.values()) == [4, 4]
        one = next(name for name, cluster in world.where().items() if cluster == "a")
        # In a the pods run; in b the member's own users were faster, and no pod has a node.
        for index in range(4):
            copied = world.members["a"].find(JOBS, f"default/{one}")
            meta = copied.spec.tasks[0].template.metadata
            pod = Pod(
                metadata=ObjectMeta(
                    name=f"{one}-w-{index}", namespace="default", labels=meta.labels, annotations=meta.annotations
                ),
                spec=msgspec.structs.replace(copied.spec.tasks[0].template.spec, node_name="n1"),
                status=PodStatus(phase="Running"),
            )
            world.members["a"].put(PODS, pod)
        await world.members["a"].patch(
            JOBS,
            one,
            {"status": {"state": {"phase": "Running"}, "running": 4}},
            namespace="default",
            subresource="status",
        )
        occupy(world, "b", 3)
        await world.run(100)
        assert world.record("llm").number == 1
        await world.run(40)
        assert world.record("llm").number > 1
        assert world.copies() == {"a": [], "b": []}
        assert any("no nodes within 120 s" in text for text in told(world, "Released"))
