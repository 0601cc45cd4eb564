"""Gangs over members that grow: all parts get their machines or none, and the machines are counted once."""

from __future__ import annotations

import pytest
from drawn_fleets import CONFIGS
from fleet_world import fleet, node
from test_fleet_divided_jobs import ARTICLE, MESH, submit
from test_fleet_machines import group, put_group, told

from unisono.api.annotations import MACHINES, MEMBER_REASONS
from unisono.api.kind_families import HYPER_JOBS, PROPAGATION_POLICIES
from unisono.api.kinds import JOBS, NODES


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


async def test_the_articles_gang_starts_over_four_that_are_there_and_eight_that_come():
    async with fleet("gpu1", "gpu2") as world:
        await world.whole("gpu1", [4])
        await world.whole("gpu2", [], groups=[group(most=1)])
        for name in ("gpu1", "gpu2"):
            world.join(name, [], **MESH)
        world.start()
        await world.run_whole(15)
        await submit(world, "gang", ARTICLE)
        seen = set()
        for _ in range(170):
            await world.run_whole(1)
            seen.add(tuple(world.running().values()))
        assert world.running() == {"gpu1": 4, "gpu2": 5}
        # What has room waits for what has machines to come.
        assert (4, 0) not in seen
        assert world.hub_client.find(JOBS, "default/gang").status.state.phase == "Running"


async def test_a_job_that_one_member_may_grow_for_is_not_divided():
    async with fleet("gpu1", "gpu2") as world:
        world.join("gpu1", [node("n", 4)], **MESH)
        world.join("gpu2", [], **MESH)
        put_group(world, "gpu2", most=2)
        world.start()
        await world.run(15)
        await submit(world, "gang", ARTICLE)
        await world.run(120)
        assert world.where() == {"gang": "gpu2"}
        assert not world.hub_client.objects(HYPER_JOBS)


@pytest.mark.parametrize(("most", "shares"), [(5, [("home", 4), ("cloud", 5)]), (4, [])])
async def test_auto_divides_over_room_and_machines_and_takes_room_first(most, shares):
    async with fleet("home", "cloud") as world:
        world.join("home", [node("n", 4)])
        world.join("cloud", [])
        put_group(world, "cloud", most=most, gpus=1)
        world.start()
        await world.run(15)
        await world.hyper("llm", {"name": "s", "pods": 9, "split": {"mode": "auto"}})
        await world.run(60)
        sizes = {
            job.metadata.name: sum(task.replicas for task in job.spec.tasks) for job in world.hub_client.objects(JOBS)
        }
        found = [(at, sizes[name]) for name, at in places(world, "llm").items()]
        assert sorted(found) == sorted(shares)
        assert list(coming(world, "llm").values()) == ([{"default/spot": 5}] if shares else [])


async def grown(world, **more):
    """A gang of two parts over a node that is there and a member from zero nodes, placed."""
    world.join("home", [node("n", 8)])
    world.join("cloud", [])
    put_group(world, "cloud", **more)
    world.start()
    await world.run(15)
    await world.hyper("llm", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
    await world.run(40)


async def test_one_limit_is_shared_by_parts_and_whole_jobs():
    async with fleet("home", "cloud") as world:
        await grown(world, most=3)
        assert list(coming(world, "llm").values()) == [{"default/spot": 1}]
        await world.job("whole", pods=2, gpus=8)
        await world.hyper("more", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
        await world.run(120)
        assert world.hub.machines.summary("cloud")[0].promised == 3
        assert (world.where()["whole"], places(world, "more")) in (
            ("cloud", {}),
            ("", {"more-s-0": "cloud", "more-s-1": "cloud"}),
        )
        waits = "more" if world.where()["whole"] else "whole"
        assert "(and 3 promised)" in world.group(waits).metadata.annotations[MEMBER_REASONS]
        await world.hub_client.delete(HYPER_JOBS, "llm", "default", propagation="Background")
        world.hub_client.collect_garbage()
        await world.run(10)
        assert world.hub.machines.summary("cloud")[0].promised == 2


async def test_two_parts_do_not_count_on_the_same_last_machine():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud", most=1)
        world.start()
        await world.run(15)
        await world.hyper("llm", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
        await world.run(120)
        assert not places(world, "llm")
        assert world.hub.machines.summary("cloud")[0].promised == 0
        put_group(world, "cloud", most=2)
        await world.run(40)
        assert places(world, "llm") == {"llm-s-0": "cloud", "llm-s-1": "cloud"}
        assert world.hub.machines.summary("cloud")[0].promised == 2


async def test_a_gang_whose_machines_do_not_come_gives_all_rooms_back_and_goes_elsewhere():
    async with fleet("home", "cloud", "other") as world:
        world.join("other", [])
        await grown(world, seconds=30, patience="5m")
        assert world.pods()["cloud"] == {"llm-s-1": 1} or world.pods()["cloud"] == {"llm-s-0": 1}
        # The part in the room that is there has no pods yet.
        assert list(world.pods()["home"].values()) == [0]
        put_group(world, "other", seconds=600)
        await world.run(200)
        assert sorted(places(world, "llm").values()) == ["cloud", "home"]
        await world.run(260)
        assert sorted(places(world, "llm").values()) == ["home", "other"]
        assert any(
            "1 machine of pool default/spot in member cloud for llm-s-" in text and "have not come in time" in text
            for text in told(world, "Released")
        )
        assert world.hub.machines.summary("cloud")[0].promised == 0


async def test_a_gang_goes_back_and_forth_no_more_often_than_its_machines_fail():
    async with fleet("home", "cloud") as world:
        await grown(world, patience="1m")
        sent = []
        for _ in range(4):
            await world.run(1800)
            sent.append(world.record("llm").number)
        # A dispatch has two numbers, its release another one.
        assert 3 < sent[0] <= 15
        assert sent[-1] - sent[-2] <= 3
        assert world.running() == {"home": 0, "cloud": 0}


async def test_a_member_that_gives_up_the_machines_of_a_part_loses_the_gang_at_once():
    async with fleet("home", "cloud") as world:
        await grown(world)
        assert len(places(world, "llm")) == 2
        put_group(world, "cloud", failing=True)
        await world.run(20)
        assert not places(world, "llm")


@pytest.mark.parametrize("before", ["dispatch", "machines"])
async def test_a_hub_that_is_killed_knows_the_machines_of_parts_again(before):
    async with fleet("home", "cloud") as world:
        world.join("home", [node("n", 8)])
        world.join("cloud", [])
        put_group(world, "cloud", most=2)
        world.start()
        await world.run(15)
        await world.hyper("llm", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
        await world.run(10 if before == "dispatch" else 200)
        assert len(places(world, "llm")) == (0 if before == "dispatch" else 2)
        await world.stop()
        world.start()
        await world.run(60)
        assert sorted(places(world, "llm").values()) == ["cloud", "home"]
        assert world.hub.machines.summary("cloud")[0].promised == 1
        await world.job("two", pods=2, gpus=8)
        await world.run(60)
        assert world.where()["two"] == ""
        assert list(world.pods()["home"].values()) == [0]
        world.members["cloud"].put(NODES, node("n1", 8))
        put_group(world, "cloud", most=2, there=1)
        await world.run(5)
        world.play()
        await world.run(30)
        assert list(world.pods()["home"].values()) == [1]
        assert world.hub.machines.summary("cloud")[0].promised == 0


async def test_parts_go_into_no_more_members_than_they_may():
    async with fleet("home", "cloud", "other") as world:
        world.join("home", [node("n", 8)])
        for name in ("cloud", "other"):
            world.join(name, [])
            put_group(world, name, most=1)
        world.start()
        await world.run(15)
        await world.hyper("llm", {"name": "s", "replicas": 3, "pods": 1, "gpus": 8}, maxDomains=2)
        await world.hyper("two", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8}, maxDomains=2)
        await world.run(150)
        assert not places(world, "llm")
        assert len(places(world, "two")) == 2


@pytest.mark.parametrize(("choice", "where"), [("Soonest", "fast"), ("LeastCost", "cheap"), ("RoomOnly", "")])
async def test_the_policy_of_a_gang_says_which_machines(choice, where):
    async with fleet("home", "fast", "cheap") as world:
        world.join("home", [node("n", 8)])
        for name, price, seconds in (("fast", 9.0, 60), ("cheap", 2.0, 300)):
            world.join(name, [])
            put_group(world, name, price=price, seconds=seconds, most=1)
        selects = [{"apiVersion": "training.volcano.sh/v1alpha1", "kind": "HyperJob"}]
        spec = {"resourceSelectors": selects, "placement": {"choice": choice}}
        await world.create(PROPAGATION_POLICIES, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
        world.start()
        await world.run(15)
        await world.hyper("llm", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
        await world.run(60)
        assert sorted(places(world, "llm").values()) == sorted(filter(None, ["home" if where else "", where]))


@pytest.mark.parametrize("config", CONFIGS)
async def test_a_gang_finds_machines_under_every_configuration(config):
    async with fleet("home", "cloud", config=CONFIGS[config]) as world:
        await grown(world)
        await world.run(20)
        assert sorted(places(world, "llm").values()) == ["cloud", "home"]
