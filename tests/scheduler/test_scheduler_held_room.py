"""Room that a fleet's hub holds in a member: no one else gets it before its time is over, and its pods get it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduler_world import Fixed, node, unadvised, world

from support.build import GANG, group, pod, queue
from support.memory import MemoryClient
from unisono.api.annotations import DISPATCH, ORIGIN_UID
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap
from unisono.api.gang_parts import (
    MOST_PODS,
    NAME,
    NAMESPACE,
    HeldRoom,
    decode_room,
    decode_rooms,
    encode_room,
    room_key,
)
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import CONFIG_MAPS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.engine.config_file.reader import load_config

KEY = room_key("u", 3)
MARKS = {ORIGIN_UID: "u", DISPATCH: "3"}


def cluster(nodes: int = 2) -> MemoryClient:
    client = MemoryClient()
    for index in range(nodes):
        client.put(NODES, node(f"n{index}", cpu="4"))
    client.put(QUEUES, queue("default"))
    return client


def room(client: MemoryClient, until: float = 300.0, seconds: float = 300.0, **places: str) -> ConfigMap:
    """Four CPUs held for each pod, on the node named."""
    pods = {name.replace("_", "-"): (at, 0) for name, at in places.items()}
    held = HeldRoom("ns", client.clock.time() + until, seconds, [{"cpu": "4"}], pods)
    return ConfigMap(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), data={KEY: encode_room(held)})


def local(client: MemoryClient, name: str, cpu: int = 4) -> None:
    """A pod of the member's own users."""
    client.put(POD_GROUPS, group(name, 1))
    client.put(PODS, pod(name, name, cpu=cpu, mem="1Gi"))


def part(client: MemoryClient, *names: str, labels: dict[str, str] = MARKS) -> None:
    """The pods for which room is held."""
    for name in names:
        client.put(PODS, pod(name, "part", cpu=4, mem="1Gi", labels=labels))


def real_world(client: MemoryClient):
    config = Fixed()
    config.config = GANG
    return world(client, engine=unadvised, config=config)


async def test_held_room_goes_to_no_one_else_and_then_to_its_pods():
    client = cluster()
    client.put(CONFIG_MAPS, room(client, part_0="n0", part_1="n1"))
    async with real_world(client) as it:
        await it.run(2)
        local(client, "mine")
        await it.run(5)
        assert it.nodes_of("mine") == {"mine": None}
        client.put(POD_GROUPS, group("part", 2, created=999))  # younger than what waits already
        part(client, "part-0")
        await it.run(5)
        assert it.nodes_of() == {"mine": None, "part-0": None}
        part(client, "part-1")
        await it.run(5)
        assert it.nodes_of() == {"mine": None, "part-0": "n0", "part-1": "n1"}


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        (20, 300),  # the hub's moment
        (10_000, 20),  # this machine's clock says so, whatever the hub's says
        (10_000, 1e12),  # and nothing is held for ever
    ],
)
async def test_it_is_free_when_its_time_is_over(until: float, seconds: float):
    client = cluster(1)
    client.put(CONFIG_MAPS, room(client, until, seconds, part_0="n0"))
    async with real_world(client) as it:
        local(client, "mine")
        await it.run(15)
        assert it.nodes_of() == {"mine": None}
        await it.run(60 if seconds < 1e6 else 3700)
        assert it.nodes_of() == {"mine": "n0"}


async def test_it_is_free_when_the_hub_lets_it_go_and_is_not_forgotten_by_a_list():
    client = cluster(1)
    client.put(CONFIG_MAPS, room(client, part_0="n0"))
    async with real_world(client) as it:
        local(client, "mine")
        await it.run(5)
        client.drop_watches()
        client.compact()
        await it.run(20)
        assert it.nodes_of() == {"mine": None}
        client.remove(CONFIG_MAPS, f"{NAMESPACE}/{NAME}")
        await it.run(5)
        assert it.nodes_of() == {"mine": "n0"}


async def test_room_that_is_taken_already_is_not_held_twice():
    client = cluster(1)
    local(client, "mine")
    async with real_world(client) as it:
        await it.run(2)
        client.put(CONFIG_MAPS, room(client, part_0="n0"))
        await it.run(2)
        assert it.nodes_of() == {"mine": "n0"}
        snapshot = it.scheduler.feed.state.snapshot()
        assert snapshot.nodes.used[snapshot.registry.find("cpu"), 0] == 4000


async def test_pods_of_an_older_dispatch_get_nothing():
    client = cluster(1)
    client.put(CONFIG_MAPS, room(client, part_0="n0"))
    async with real_world(client) as it:
        client.put(POD_GROUPS, group("part", 1))
        part(client, "part-0", labels={ORIGIN_UID: "u", DISPATCH: "2"})
        await it.run(5)
        assert it.nodes_of() == {"part-0": None}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{" * 5000,
        '{"namespace":"ns","until":1,"seconds":1,"requests":[],"pods":{"a":["n",0]}}',
        '{"namespace":"ns","until":1,"seconds":1,"requests":[{}],"pods":{"a":["n",-1]}}',
        '{"namespace":"","until":1,"seconds":1,"requests":[{}],"pods":{"a":["n",0]}}',
        '{"namespace":"ns","until":"x","seconds":1,"requests":[{}],"pods":{}}',
    ],
)
def test_what_cannot_be_read_holds_nothing(text: str):
    assert decode_room(text) is None


def test_too_many_pods_hold_nothing():
    pods = {f"p{at}": ("n", 0) for at in range(MOST_PODS + 1)}
    assert decode_room(encode_room(HeldRoom("ns", 1.0, 1.0, [{}], pods))) is None


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=200), max_size=4))
def test_any_text_is_read_or_left_out(data: dict[str, str]):
    assert decode_rooms(data).keys() <= data.keys()


async def test_amounts_that_are_none_stop_nothing():
    client = cluster(1)
    held = HeldRoom("ns", client.clock.time() + 300, 300, [{"cpu": "many"}], {"part-0": ("n0", 0)})
    data = {
        KEY: encode_room(held),
        room_key("v", 1): encode_room(HeldRoom("ns", 9e9, 300, [{"cpu": "4"}], {"x": ("no", 0)})),
    }
    client.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), data=data))
    async with real_world(client) as it:
        local(client, "mine")
        await it.run(5)
        assert it.nodes_of() == {"mine": "n0"}


GATES = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: {gate}
  - name: predicates
"""


def asking(name: str, cpu: int, queue: str = "default", **labels: str) -> PodGroup:
    """A PodGroup without pods that asks to be admitted."""
    made = group(name, 1, queue=queue, phase="Pending", resources={"cpu": str(cpu)})
    made.metadata.labels = labels or None
    return made


@pytest.mark.parametrize("gate", ["overcommit", "proportion", "capacity"])
async def test_the_gate_counts_it_for_its_owner_and_against_all_others(gate: str):
    client = cluster()
    client.put(QUEUES, queue("small", capability={"cpu": 8}))
    client.put(CONFIG_MAPS, room(client, part_0="n0", part_1="n1"))
    config = Fixed()
    config.config = load_config(GATES.format(gate=gate))
    async with world(client, engine=unadvised, config=config) as it:
        client.put(POD_GROUPS, asking("older", 8, "small", **{**MARKS, DISPATCH: "2"}))
        client.put(POD_GROUPS, asking("mine", 8, "small"))
        client.put(POD_GROUPS, asking("part", 8, "small", **MARKS))
        await it.run(5)
        phases = {each.metadata.name: each.status.phase for each in client.objects(POD_GROUPS)}
        assert phases == {"part": "Inqueue", "older": "Pending", "mine": "Pending"}
        client.remove(POD_GROUPS, "ns/part")
        client.remove(CONFIG_MAPS, f"{NAMESPACE}/{NAME}")
        await it.run(5)
        phases = {each.metadata.name: each.status.phase for each in client.objects(POD_GROUPS)}
        assert sorted(phases.values()) == ["Inqueue", "Pending"]


async def test_a_gang_that_has_its_minimum_is_placed_before_the_last_of_its_pods_come():
    client = cluster(3)
    client.put(CONFIG_MAPS, room(client, part_0="n0", part_1="n1", part_2="n2"))
    async with real_world(client) as it:
        await it.run(2)
        client.put(POD_GROUPS, group("part", 2))
        local(client, "mine")
        part(client, "part-0", "part-1")
        await it.run(5)
        assert it.nodes_of() == {"mine": None, "part-0": "n0", "part-1": "n1"}
