"""Replicas that are divided over members that grow: room first, machines for the rest, counted in the same book."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import GPU, fleet, node
from test_fleet_machines import group, put_group, told

from unisono.api.annotations import HUB, MACHINES, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.core import Pod, PodStatus
from unisono.api.decode import decode
from unisono.api.kind_families import DEPLOYMENTS, PROPAGATION_POLICIES
from unisono.api.kinds import NODES, PODS
from unisono.api.promised_machines import machines_of_replicas
from unisono.fleet.division.plan import Candidates, NotEnoughRoom, Wish, plan_growing
from unisono.fleet.jobs.replicas import recorded

DYNAMIC = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}


ONE = {"spreadByField": "cluster", "maxGroups": 1}


async def policy(world, **more):
    spec = {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"replicaScheduling": DYNAMIC, **more},
    }
    await world.create(PROPAGATION_POLICIES, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})


async def deploy(world, name, replicas, gpus=8):
    labels = {"app": name}
    resources = {"requests": {"cpu": "1", GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    pod = {"containers": [{"name": "c", "image": "i", "resources": resources}]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"schedulerName": "volcano", **pod}},
    }
    await world.create(DEPLOYMENTS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def web(world, name="web"):
    return world.hub_client.find(DEPLOYMENTS, f"default/{name}")


def divided(world, name="web"):
    found = {each.type: each for each in web(world, name).status.conditions or ()}["Divided"]
    return found.status, found.message


def seat(world, member, name, count):
    """A member gives nodes to so many replicas."""
    uid = web(world, name).metadata.uid
    for at in range(count):
        meta = ObjectMeta(name=f"{name}-{at}", namespace="default", labels={HUB: "the-hub", ORIGIN_UID: uid})
        spec = msgspec.structs.replace(web(world, name).spec.template.spec, node_name=f"n{at}")
        world.members[member].put(PODS, Pod(metadata=meta, spec=spec, status=PodStatus(phase="Running")))


@pytest.mark.parametrize(
    ("replicas", "room", "growing", "placement", "expected"),
    [
        (4, {"a": 2}, {"b": 2}, {}, ({"a": 2, "b": 2}, {"b": 2})),
        (4, {"a": 2}, {"b": 8}, {}, ({"a": 2, "b": 2}, {"b": 2})),
        (4, {"a": 1}, {"b": 1, "a": 5}, {}, ({"a": 3, "b": 1}, {"b": 1, "a": 2})),
        (4, {"a": 2}, {"b": 1}, {}, None),
        (
            4,
            {"a": 2},
            {"b": 4},
            {"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1}]},
            ({"b": 4}, {"b": 4}),
        ),
    ],
)
def test_room_first_and_machines_for_the_rest(replicas, room, growing, placement, expected):
    spec = {"resourceSelectors": [], "placement": {"replicaScheduling": DYNAMIC, **placement}}
    given = decode(PROPAGATION_POLICIES, {"metadata": {"name": "p"}, "spec": spec}).obj.spec.placement
    asked = Wish(replicas, "u"), given, [], Candidates(["a", "b"], room), growing
    if expected is None:
        with pytest.raises(NotEnoughRoom):
            plan_growing(*asked)
        return
    found = plan_growing(*asked)
    assert (found.shares, found.coming) == expected


async def test_replicas_go_into_a_member_from_zero_nodes():
    async with fleet("home", "cloud") as world:
        await world.whole("home", [8])
        await world.whole("cloud", [], groups=[group()])
        await policy(world)
        world.start()
        await world.run_whole(15)
        await deploy(world, "web", 3)
        await world.run_whole(40)
        assert recorded(web(world)) == {"home": 1, "cloud": 2}
        waits = "waits for 2 machines of pool default/spot in member cloud, about 80 seconds, 4 an hour"
        assert told(world, "Divided") == [f"2 in cloud, which {waits}; 1 in home"]
        assert divided(world) == ("True", f"all replicas have a member; {waits}")
        assert world.hub.machines.summary("cloud")[0].promised == 2
        await world.run_whole(260)
        assert world.running() == {"home": 1, "cloud": 2}
        assert divided(world) == ("True", "all replicas have a member")
        assert MACHINES not in (web(world).metadata.annotations or {})
        assert world.hub.machines.summary("cloud")[0].promised == 0
        assert not [name for name in world.hub.members_state.feed.state.nodes.names if "+" in name]
        assert not [key for key in world.hub.members_state.feed.state.tasks if "+" in key]


async def sent(world, most=3, replicas=2, **more):
    world.join("cloud", [])
    put_group(world, "cloud", most=most, **more)
    await policy(world)
    world.start()
    await world.run(15)
    await deploy(world, "web", replicas)
    await world.run(45)


async def test_one_limit_is_shared_by_replicas_a_part_and_a_whole_job():
    async with fleet("cloud") as world:
        await sent(world)
        assert recorded(web(world)) == {"cloud": 2}
        await deploy(world, "more", 2)
        await world.job("whole", pods=2, gpus=8)
        await world.hyper("llm", {"name": "s", "replicas": 2, "pods": 1, "gpus": 8})
        await world.run(90)
        assert (recorded(web(world, "more")), world.where()["whole"], world.record("llm").parts) == ({}, "", {})
        status, why = divided(world, "more")
        assert status == "False"
        assert "cloud: machines that may come: 1 of default/spot (and 2 promised)" in why
        assert world.hub.machines.summary("cloud")[0].promised == 2
        await world.job("small", pods=1, gpus=8)
        await world.run(60)
        assert world.where()["small"] == "cloud"
        assert world.hub.machines.summary("cloud")[0].promised == 3


async def test_more_replicas_get_more_machines_beside_those_that_others_wait_for():
    async with fleet("cloud") as world:
        await sent(world, most=5)
        await world.hub_client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, namespace="default")
        await world.run(45)
        assert recorded(web(world)) == {"cloud": 4}
        assert machines_of_replicas(web(world))["cloud"].machines == {"default/spot": 4}
        assert world.hub.machines.summary("cloud")[0].promised == 4
        await world.hub_client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}}, namespace="default")
        await world.run(15)
        assert world.hub.machines.summary("cloud")[0].promised == 1


async def test_what_a_user_writes_of_machines_promises_none_and_moves_nothing():
    async with fleet("cloud") as world:
        await sent(world)
        text = '{"cloud":{"dispatch":0,"machines":{"default/spot":900},"seconds":1,"patience":1,"price":1}}'
        notes = {"metadata": {"annotations": {MACHINES: text}}}
        await world.stop()
        await world.hub_client.patch(DEPLOYMENTS, "web", notes, namespace="default")
        world.start()
        await world.run(60)
        assert recorded(web(world)) == {"cloud": 2}
        assert world.hub.machines.summary("cloud")[0].promised == 0


async def test_deleted_replicas_give_their_machines_back():
    async with fleet("cloud") as world:
        await sent(world)
        assert world.hub.machines.summary("cloud")[0].promised == 2
        await world.hub_client.delete(DEPLOYMENTS, "web", "default")
        await world.run(5)
        assert world.hub.machines.summary("cloud")[0].promised == 0
        assert world.hub.members_state.feed.state.nodes.names == []


async def test_replicas_whose_machines_do_not_come_go_elsewhere():
    async with fleet("cloud", "other") as world:
        await sent(world, patience="5m")
        world.join("other", [])
        put_group(world, "other", seconds=600)
        await world.run(250)
        assert recorded(web(world)) == {"cloud": 2}
        await world.run(160)
        assert recorded(web(world)) == {"other": 2}
        assert "2 machines of pool default/spot in member cloud have not come in time" in told(world, "MachinesLate")


async def test_replicas_without_machines_wait_with_a_reason_and_do_not_go_back_and_forth():
    async with fleet("cloud") as world:
        await sent(world, patience="1m")
        changes = []
        for _ in range(4):
            count, last = 0, recorded(web(world))
            for _ in range(60):
                await world.run(30)
                now = recorded(web(world))
                count, last = count + (now != last), now
            changes.append(count)
        assert 1 < changes[0] <= 10
        assert changes[-1] <= 2
        assert not recorded(web(world)) or MACHINES in web(world).metadata.annotations


async def test_a_hub_that_is_killed_knows_the_machines_of_replicas_again():
    async with fleet("cloud") as world:
        await sent(world)
        await world.stop()
        world.start()
        await world.run(60)
        assert world.hub.machines.summary("cloud")[0].promised == 2
        await world.job("two", pods=2, gpus=8)
        await world.run(60)
        assert world.where()["two"] == ""
        for at in range(2):
            world.members["cloud"].put(NODES, node(f"n{at}", 8))
        put_group(world, "cloud", most=2, there=2)
        await world.run(30)
        # They have come, and nobody else gets them.
        assert world.where()["two"] == ""
        seat(world, "cloud", "web", 2)
        await world.run(30)
        assert world.hub.machines.summary("cloud")[0].promised == 0
        assert not machines_of_replicas(web(world))
        assert world.where()["two"] == ""


@pytest.mark.parametrize(("choice", "where"), [("Soonest", "fast"), ("LeastCost", "cheap"), ("RoomOnly", "")])
async def test_the_policy_of_replicas_says_which_machines(choice, where):
    async with fleet("fast", "cheap") as world:
        for name, price, seconds in (("fast", 9.0, 60), ("cheap", 2.0, 300)):
            world.join(name, [])
            put_group(world, name, price=price, seconds=seconds)
        await policy(world, choice=choice)
        world.start()
        await world.run(15)
        await deploy(world, "web", 2)
        await world.run(60)
        assert recorded(web(world)) == ({where: 2} if where else {})
