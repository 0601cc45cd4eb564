"""Members that grow: a job goes where machines may come, whole, counted, and for no longer than they may take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from drawn_fleets import CONFIGS, troubled
from fleet_world import GPU, NAMESPACE, World, fleet, node, template

from unisono.api.annotations import (
    BACKOFF_UNTIL,
    BOOT_SECONDS,
    MACHINES,
    MEMBER_REASONS,
    PRICE,
    PRICES,
    WORKER_LOST_TIMEOUT,
)
from unisono.api.decode import decode
from unisono.api.groups.autoscaling import (
    CAPACITY,
    GPU_COUNT,
    MACHINE_DEPLOYMENTS,
    MAXIMUM,
    NODE_POOLS,
    PROVISION_TIME,
    UNNEEDED_TIME,
)
from unisono.api.kind_families import ATTACHED_CLUSTERS, PROPAGATION_POLICIES, PYTORCH_JOBS
from unisono.api.kinds import EVENTS, JOBS, NODES
from unisono.api.promised_machines import PromisedMachines, promised_machines
from unisono.api.times import rfc3339
from unisono.api.validation import validate
from unisono.controllers.node_scaling.decide import Demand, Pool, Room
from unisono.fleet.machines.ways import Ask, Stock, ways


def group(name: str = "spot", most: int = 4, **more: Any) -> dict[str, Any]:
    return {"name": name, "max": most, "price": 2.0, "bootSeconds": 60, **more}


def told(world: World, reason: str) -> list[str]:
    return [each.message or "" for each in world.hub_client.objects(EVENTS) if each.reason == reason]


def put_group(
    world: World,
    member: str,
    most: int = 4,
    price: float = 2.0,
    seconds: float = 60,
    patience: str = "15m",
    failing: bool = False,
    there: int = 0,
    coming: int = 0,
    gpus: int = 8,
) -> None:
    """A MachineDeployment of a member whose machines do not come by themselves."""
    notes = {
        MAXIMUM: str(most),
        f"{CAPACITY}cpu": "32",
        f"{CAPACITY}memory": "128Gi",
        GPU_COUNT: str(gpus),
        PRICE: str(price),
        BOOT_SECONDS: str(seconds),
        PROVISION_TIME: patience,
    }
    if failing:
        notes[BACKOFF_UNTIL] = rfc3339(world.clock.time() + 3600)
    meta = {"name": "spot", "namespace": "default", "annotations": notes}
    value = {"metadata": meta, "spec": {"replicas": there + coming}, "status": {"readyReplicas": there}}
    world.members[member].put(MACHINE_DEPLOYMENTS, decode(MACHINE_DEPLOYMENTS, value).obj)


def put_node_pool(world: World, member: str, limits: dict[str, str], nodes: int = 0) -> None:
    """A NodePool of Karpenter whose nodes do not come by themselves."""
    notes = {f"{CAPACITY}cpu": "32", f"{CAPACITY}memory": "128Gi", GPU_COUNT: "8", PRICE: "2.1"}
    template = {"metadata": {"labels": {"tier": "gold"}}, "spec": {}}
    status = {"resources": {"nodes": str(nodes), GPU: str(8 * nodes)}}
    value = {
        "metadata": {"name": "gpu", "annotations": notes},
        "spec": {"template": template, "limits": limits},
        "status": status,
    }
    world.members[member].put(NODE_POOLS, decode(NODE_POOLS, value).obj)


async def policy(world: World, **placement: Any) -> None:
    spec = {
        "resourceSelectors": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}],
        "placement": placement,
    }
    await world.create(PROPAGATION_POLICIES, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})


POD = Demand({"cpu": 1000, GPU: 8000}, count=1)


def pool(name: str, price: float, seconds: float | None, most: int = 4, *, failing: bool = False) -> Pool:
    offers = {"cpu": 8000, GPU: 8000}
    return Pool(name, 0, 0, most, offers, price=price, boot_seconds=seconds, failing=failing)


def room(gpus: int) -> Room:
    offers = {"cpu": 8000, GPU: 8000}
    return Room(Pool("n", 1, 0, 1, offers), {"cpu": 8000, GPU: 1000 * gpus})


@pytest.mark.parametrize(
    ("pools", "rooms", "cheapest", "expected"),
    [
        ([pool("a", 2, 60)], [], False, ({"a": 3}, 80, 6)),
        ([pool("a", 2, None)], [], False, ({"a": 3}, 260, 6)),
        # Room that is there needs no machines.
        ([pool("a", 2, 60)], [room(8), room(4)], False, ({"a": 2}, 80, 4)),
        ([pool("a", 2, 60)], [room(8)] * 3, False, None),
        # The whole gang or nothing.
        ([pool("a", 2, 60, most=2)], [], False, None),
        ([pool("a", 2, 60, failing=True)], [], False, None),
        # By time or by price.
        ([pool("a", 9, 60), pool("b", 2, 300)], [], False, ({"a": 3}, 80, 27)),
        ([pool("a", 9, 60), pool("b", 2, 300)], [], True, ({"b": 3}, 320, 6)),
        ([pool("a", 9, 60, most=2), pool("b", 2, 300, most=2)], [], False, ({"a": 1, "b": 2}, 320, 13)),
    ],
)
def test_which_machines_serve_a_gang(pools, rooms, cheapest, expected):
    asked, stocks = Ask("job", [POD] * 3, ["m"]), {"m": Stock("m", pools, rooms)}
    found = next(ways([asked], stocks, cheapest=cheapest), {}).get("job")
    assert (None if found is None else (dict(found.machines), found.seconds, found.price)) == expected


@pytest.mark.parametrize(
    ("members", "ranks", "cheapest", "expected"),
    [
        ({}, {}, False, ""),
        ({"a": pool("p", 9, 60), "b": pool("p", 2, 300)}, {}, False, "a"),
        ({"a": pool("p", 9, 60), "b": pool("p", 2, 300)}, {}, True, "b"),
        ({"a": pool("p", 9, 60), "b": pool("p", 2, 60)}, {}, False, "b"),
        ({"a": pool("p", 9, 60), "b": pool("p", 2, 300)}, {"b": 100.0, "a": 0.0}, False, "b"),
    ],
)
def test_which_member_is_best(members, ranks, cheapest, expected):
    stocks = {name: Stock(name, [each]) for name, each in members.items()}
    found = next(ways([Ask("job", [POD], list(members), ranks)], stocks, cheapest=cheapest), None)
    assert ("" if found is None else found["job"].cluster) == expected


A, B = ("a",), ("b",)
BOTH = ("a", "b")


@pytest.mark.parametrize(
    ("stocks", "asked", "more", "expected"),
    [
        # Room that is there comes first, also where machines elsewhere would do.
        ({"a": Stock("a", [], [room(8)]), "b": Stock("b", [pool("p", 1, 60)])}, [BOTH, BOTH], {}, ["a", "b1"]),
        # Two parts do not count on the same last machine, nor on the same room.
        ({"a": Stock("a", [pool("p", 1, 60, most=1)])}, [A, A], {}, None),
        ({"a": Stock("a", [pool("p", 1, 60, most=1)], [room(8)])}, [A, A], {}, ["a", "a1"]),
        ({"a": Stock("a", [pool("p", 1, 60, most=2)])}, [A, A], {}, ["a1", "a1"]),
        # All machines or none: one part has no place anywhere.
        ({"a": Stock("a", [pool("p", 1, 60)]), "b": Stock("b", [])}, [A, B], {}, None),
        # Room that one could have is left to the one that may go nowhere else.
        ({"a": Stock("a", [], [room(8)]), "b": Stock("b", [pool("p", 1, 60)])}, [BOTH, A], {}, ["b1", "a"]),
        # No machines where all have room.
        ({"a": Stock("a", [pool("p", 1, 60)], [room(8), room(8)])}, [A, A], {}, None),
        # In as many members as they may be in.
        (
            {"a": Stock("a", [], [room(8)]), "b": Stock("b", [pool("p", 1, 60)])},
            [BOTH, BOTH],
            {"most": 1},
            ["b1", "b1"],
        ),
        (
            {"a": Stock("a", [], [room(8)]), "b": Stock("b", [pool("p", 1, 60)])},
            [BOTH],
            {"most": 1, "fixed": ["a"]},
            None,
        ),
        # Price before room, where that counts.
        (
            {"a": Stock("a", [], [room(8)]), "b": Stock("b", [pool("p", 1, 60)])},
            [BOTH, BOTH],
            {"cheapest": True, "cost": lambda _cluster, _uid: 5.0},
            ["b1", "b1"],
        ),
    ],
)
def test_parts_of_a_gang_get_all_their_machines_or_none(stocks, asked, more, expected):
    asks = [Ask(str(at), [POD], clusters) for at, clusters in enumerate(asked)]
    found = next(ways(asks, stocks, **{"cheapest": False, **more}), None)
    told = [f"{way.cluster}{sum(way.machines.values()) or ''}" for _, way in sorted((found or {}).items())]
    assert (told or None) == expected


def test_a_choice_that_there_is_not_is_refused():
    spec = {
        "resourceSelectors": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}],
        "placement": {"choice": "Cheap"},
    }
    given = decode(PROPAGATION_POLICIES, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}).obj
    assert [each.path for each in validate(PROPAGATION_POLICIES, given)] == ["spec.placement.choice"]


async def test_a_job_bursts_into_a_member_from_zero_nodes():
    async with fleet("home", "cloud") as world:
        await world.whole("home", [8])
        await world.whole("cloud", [], groups=[group()])
        world.start()
        await world.run_whole(15)
        await world.job("train", pods=3, gpus=8)
        await world.run_whole(40)
        assert world.where() == {"train": "cloud"}
        job = world.hub_client.find(JOBS, "default/train")
        machines = promised_machines(job)
        assert machines.machines == {"default/spot": 3}
        assert told(world, "Dispatched") == [
            "sent to cloud: waits for 3 machines of pool default/spot in member cloud, about 80 seconds, 6 an hour"
        ]
        await world.run_whole(100)
        assert world.running() == {"home": 0, "cloud": 3}
        assert MACHINES not in (world.hub_client.find(JOBS, "default/train").metadata.annotations or {})
        assert not [name for name in world.hub.members_state.feed.state.nodes.names if "+" in name]
        # After the job the member gives its machines back by its own rule.
        notes = {"metadata": {"annotations": {UNNEEDED_TIME: "30s"}}}
        await world.members["cloud"].patch(MACHINE_DEPLOYMENTS, "spot", notes, namespace="default")
        await world.hub_client.delete(JOBS, "train", "default", propagation="Background")
        await world.run_whole(150)
        assert [each.metadata.name for each in world.members["cloud"].objects(NODES)] == []
        status = world.cluster("cloud").status
        assert (status.node_summary.ready_num, status.node_groups[0].may_come) == (0, 4)


async def test_two_jobs_do_not_count_on_the_same_machines():
    async with fleet("cloud") as world:
        await world.whole("cloud", [], groups=[group(most=3)])
        world.start()
        await world.run_whole(15)
        await world.job("one", pods=2, gpus=8)
        await world.job("two", pods=2, gpus=8)
        await world.run_whole(60)
        assert sorted(world.where().values()) == ["", "cloud"]
        first = next(name for name, at in world.where().items() if at)
        await world.run_whole(100)
        assert world.running() == {"cloud": 2}
        assert sorted(world.where().values()) == ["", "cloud"]
        await world.hub_client.delete(JOBS, first, "default", propagation="Background")
        await world.run_whole(60)
        # Two machines are there already.
        assert world.running() == {"cloud": 2}
        assert "cloud" in world.where().values()


async def test_a_deleted_job_gives_its_machines_back():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud", most=3)
        world.start()
        await world.run(15)
        await world.job("one", pods=2, gpus=8)
        await world.run(30)
        await world.job("two", pods=2, gpus=8)
        await world.run(40)
        assert world.where() == {"one": "cloud", "two": ""}
        reasons = world.group("two").metadata.annotations[MEMBER_REASONS]
        assert "machines that may come: 1 of default/spot (and 2 promised)" in reasons
        summary = world.cluster("cloud").status.node_groups[0]
        assert (summary.may_come, summary.promised) == (1, 2)
        await world.hub_client.delete(JOBS, "one", "default", propagation="Background")
        await world.run(40)
        assert world.where() == {"two": "cloud"}


async def test_no_machines_for_what_its_queue_does_not_allow():
    async with fleet("cloud") as world:
        world.queue("small", capability={GPU: "16"})
        world.join("cloud", [])
        put_group(world, "cloud", most=8)
        world.start()
        await world.run(15)
        await world.job("one", pods=2, gpus=8, queue="small")
        await world.run(30)
        await world.job("two", pods=1, gpus=8, queue="small")
        await world.job("other", pods=1, gpus=8)
        await world.run(120)
        assert world.where() == {"one": "cloud", "two": "", "other": "cloud"}


async def test_machines_that_do_not_come_are_waited_for_no_longer_than_their_group_says():
    async with fleet("bad", "good") as world:
        world.join("bad", [])
        world.join("good", [])
        put_group(world, "bad", seconds=30, patience="5m")
        world.start()
        await world.run(15)
        await world.job("train", pods=2, gpus=8)
        await world.run(40)
        assert world.where() == {"train": "bad"}
        put_group(world, "good", seconds=600)
        await world.run(200)
        assert world.where() == {"train": "bad"}
        await world.run(220)
        assert world.where() == {"train": "good"}
        assert any(
            "2 machines of pool default/spot in member bad have not come in time" in t for t in told(world, "TakenBack")
        )
        # The group is passed by, for the next one longer.
        await world.job("next", pods=1, gpus=8)
        await world.run(60)
        assert world.where()["next"] == "good"


async def test_nothing_goes_back_and_forth_for_ever():
    async with fleet("bad") as world:
        world.join("bad", [])
        put_group(world, "bad", patience="1m")
        world.start()
        await world.run(15)
        await world.job("train", pods=2, gpus=8)
        sent = []
        for _ in range(4):
            await world.run(1800)
            sent.append(len(told(world, "Dispatched")))
        assert sent[0] <= 5
        assert sent[-1] - sent[-2] <= 1


async def test_a_member_that_gives_up_its_machines_loses_the_job_at_once():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud")
        world.start()
        await world.run(15)
        await world.job("train", pods=2, gpus=8)
        await world.run(40)
        assert world.where() == {"train": "cloud"}
        put_group(world, "cloud", failing=True)
        await world.run(130)
        assert world.where() == {"train": ""}


async def test_a_member_is_lost_while_its_machines_come():
    async with fleet("a", "b") as world:
        world.join("a", [])
        world.join("b", [])
        put_group(world, "a")
        world.start()
        await world.run(15)
        await world.job("train", pods=2, gpus=8, annotations={WORKER_LOST_TIMEOUT: "1m"})
        await world.run(40)
        assert world.where() == {"train": "a"}
        put_group(world, "b")
        world.lose("a")
        await world.run(180)
        assert world.where() == {"train": "b"}
        assert world.hub.machines.summary("a")[0].promised == 0
        world.find("a")
        await world.run(60)
        assert world.copies() == {"a": [], "b": ["train"]}


@pytest.mark.parametrize("before", ["dispatch", "machines"])
async def test_a_hub_that_is_killed_knows_its_promises_again(before):
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud", most=3)
        world.start()
        await world.run(15)
        await world.job("one", pods=2, gpus=8)
        await world.run(10 if before == "dispatch" else 40)
        assert world.where() == {"one": "" if before == "dispatch" else "cloud"}
        await world.stop()
        world.start()
        await world.run(60)
        await world.job("two", pods=2, gpus=8)
        await world.run(60)
        assert world.where() == {"one": "cloud", "two": ""}
        assert world.hub.machines.summary("cloud")[0].promised == 2
        put_group(world, "cloud", most=3, coming=2)
        for name in ("n1", "n2"):
            world.members["cloud"].put(NODES, node(name, 8))
        put_group(world, "cloud", most=2, there=2)
        # Its machines have come, and nobody else gets them.
        await world.run(60)
        assert world.where() == {"one": "cloud", "two": ""}
        world.play()
        await world.run(60)
        assert world.where() == {"one": "cloud", "two": ""}
        assert world.hub.machines.summary("cloud")[0].promised == 0


async def test_a_gang_takes_room_that_is_there_and_machines_for_the_rest():
    async with fleet("cloud") as world:
        world.join("cloud", [node("n1", 8)])
        put_group(world, "cloud")
        world.start()
        await world.run(15)
        await world.job("train", pods=3, gpus=8)
        await world.run(40)
        assert world.where() == {"train": "cloud"}
        assert promised_machines(world.hub_client.find(JOBS, "default/train")).machines == {"default/spot": 2}


async def test_the_first_machine_that_comes_is_not_given_to_another_job():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud", most=3)
        world.start()
        await world.run(15)
        await world.job("train", pods=3, gpus=8)
        await world.run(40)
        await world.job("small", pods=1, gpus=1)
        put_group(world, "cloud", most=3, there=1, coming=2)
        world.members["cloud"].put(NODES, node("n1", 8))
        await world.run(30)
        assert world.where() == {"train": "cloud", "small": ""}
        for name in ("n2", "n3", "n4"):
            world.members["cloud"].put(NODES, node(name, 8))
        await world.run(10)
        assert world.where() == {"train": "cloud", "small": "cloud"}


@pytest.mark.parametrize(
    ("choice", "price", "where"),
    [
        ("LeastCost", "nvidia.com/gpu=2.5", "cheap"),
        ("LeastCost", "nvidia.com/gpu=0.1", "dear"),
        ("LeastCost", "", "dear"),
        ("Soonest", "nvidia.com/gpu=2.5", "dear"),
        (None, "nvidia.com/gpu=2.5", "dear"),
    ],
)
async def test_room_or_machines_by_what_the_policy_says(choice, price, where):
    async with fleet("dear", "cheap") as world:
        world.join("dear", [node("n1", 8)])
        if price:
            found = world.cluster("dear")
            found.metadata.annotations = {PRICES: price}
            world.hub_client.put(ATTACHED_CLUSTERS, found)
        world.join("cheap", [])
        put_group(world, "cheap", price=2.0)
        await policy(world, **({"choice": choice} if choice else {}))
        world.start()
        await world.run(15)
        await world.job("train", pods=1, gpus=8)
        await world.run(40)
        assert world.where() == {"train": where}


@pytest.mark.parametrize(("choice", "where"), [("Soonest", "fast"), ("LeastCost", "cheap"), ("RoomOnly", "")])
async def test_the_soonest_the_cheapest_or_no_machines(choice, where):
    async with fleet("fast", "cheap") as world:
        for name, price, seconds in (("fast", 9.0, 60), ("cheap", 2.0, 300)):
            world.join(name, [])
            put_group(world, name, price=price, seconds=seconds)
        await policy(world, choice=choice)
        world.start()
        await world.run(15)
        await world.job("train", pods=1, gpus=8)
        await world.run(60)
        assert world.where() == {"train": where}


async def test_earlier_groups_of_a_policy_come_first():
    async with fleet("home", "cloud") as world:
        for name, price in (("home", 9.0), ("cloud", 2.0)):
            world.join(name, [])
            put_group(world, name, price=price)
        groups = [{"affinityName": "h", "clusterNames": ["home"]}, {"affinityName": "c", "clusterNames": ["cloud"]}]
        await policy(world, clusterAffinities=groups)
        world.start()
        await world.run(15)
        await world.job("train", pods=1, gpus=8)
        await world.run(60)
        assert world.where() == {"train": "home"}


async def test_karpenters_node_pools_grow_within_their_limits():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_node_pool(world, "cloud", {GPU: "24"})
        world.start()
        await world.run(15)
        await world.job("large", pods=4, gpus=8)
        await world.job("train", pods=3, gpus=8, pod={"nodeSelector": {"tier": "gold"}})
        await world.run(60)
        assert world.where() == {"large": "", "train": "cloud"}
        assert "3 machines of pool gpu in member cloud, about 4 minutes, 6.3 an hour" in told(world, "Dispatched")[0]
        for number in range(3):
            world.members["cloud"].put(NODES, node(f"n{number}", 8, tier="gold", karpenter_sh__nodepool="gpu"))
        put_node_pool(world, "cloud", {GPU: "24"}, nodes=3)
        await world.run(5)
        world.play()
        await world.run(30)
        assert world.hub.machines.summary("cloud")[0].may_come == 0
        assert world.hub.members_state.stand_ins.has_started(world.hub_client.find(JOBS, "default/train").metadata.uid)


async def test_a_job_that_tolerates_everything_gets_no_machines_of_others():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud", most=3)
        world.start()
        await world.run(15)
        await world.job("train", pods=3, gpus=8)
        await world.job("any", pods=1, gpus=8, pod={"tolerations": [{"operator": "Exists"}]})
        await world.run(90)
        assert sorted(world.where().items()) in ([("any", ""), ("train", "cloud")], [("any", "cloud"), ("train", "")])


async def test_a_member_that_leaves_takes_its_machines_along():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud")
        world.start()
        await world.run(15)
        await world.job("train", pods=3, gpus=8)
        await world.run(40)
        assert world.hub.members_state.feed.state.nodes.names
        world.hub_client.remove(ATTACHED_CLUSTERS, f"{NAMESPACE}/cloud")
        await world.run(30)
        assert not world.hub.members_state.feed.state.nodes.names


@pytest.mark.parametrize(("choice", "where"), [("LeastCost", "cheap"), ("Soonest", "dear")])
async def test_of_two_members_with_room_the_cheaper_one_is_taken_where_cost_counts(choice, where):
    async with fleet("cheap", "dear") as world:
        for name, price, nodes in (("cheap", 1.0, 2), ("dear", 4.0, 1)):
            world.join(name, [node(f"n{at}", 8) for at in range(nodes)])
            found = world.cluster(name)
            found.metadata.annotations = {PRICES: f"{GPU}={price}"}
            world.hub_client.put(ATTACHED_CLUSTERS, found)
        await policy(world, choice=choice)
        world.start()
        await world.run(15)
        # The fuller of two clusters is taken where nothing else counts.
        await world.job("train", pods=1, gpus=1)
        await world.run(20)
        assert world.where() == {"train": where}


async def test_a_training_job_bursts_as_well():
    async with fleet("cloud") as world:
        world.join("cloud", [])
        put_group(world, "cloud")
        world.start()
        await world.run(15)
        spec = {"schedulerName": "volcano", **template(8)["spec"]}
        replicas = {"Worker": {"replicas": 2, "restartPolicy": "Never", "template": {"spec": spec}}}
        value = {"metadata": {"name": "torch", "namespace": "default"}, "spec": {"pytorchReplicaSpecs": replicas}}
        await world.create(PYTORCH_JOBS, value)
        await world.run(40)
        assert world.where(PYTORCH_JOBS) == {"torch": "cloud"}
        assert told(world, "Dispatched")[0].startswith("sent to cloud: waits for 2 machines of pool default/spot")


@pytest.mark.parametrize("config", CONFIGS)
async def test_machines_are_found_under_every_configuration(config):
    async with fleet("cloud", config=CONFIGS[config]) as world:
        world.join("cloud", [])
        put_group(world, "cloud")
        world.start()
        await world.run(15)
        await world.job("train", pods=2, gpus=8)
        await world.job("more", pods=2, gpus=8)
        await world.run(60)
        assert world.where() == {"train": "cloud", "more": "cloud"}
        assert world.hub.machines.summary("cloud")[0].promised == 4


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_drawn_lives_of_fleets_that_grow(seed):
    await troubled(seed, growing=True)


async def test_what_a_user_writes_of_machines_promises_none():
    async with fleet("cloud") as world:
        world.join("cloud", [node("n1", 8)])
        put_group(world, "cloud", most=1_000_000)
        world.start()
        await world.run(15)
        await world.job("train", pods=1, gpus=1)
        await world.run(5)
        record = PromisedMachines(1, {"default/spot": 1_000_000}, 60.0, 900.0, 2.0)
        notes = {"metadata": {"annotations": {MACHINES: msgspec.json.encode(record).decode()}}}
        await world.hub_client.patch(JOBS, "train", notes, namespace="default")
        await world.run(30)
        assert world.where() == {"train": "cloud"}
        assert world.hub.machines.summary("cloud")[0].promised == 0
