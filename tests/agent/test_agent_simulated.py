"""Simulated nodes on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_node import manifest

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.simulated.nodes import SimulatedNodes, parse_specs
from unisono.agent.simulated.specs import script_of
from unisono.api.base import ObjectMeta
from unisono.api.core import Lease, LeaseSpec, Pod
from unisono.api.kinds import LEASES, NODES, PODS
from unisono.errors import ConfigError

GROUP = {
    "name": "gpu",
    "count": 3,
    "capacity": {"cpu": 64, "memory": "512Gi", "nvidia.com/gpu": 8},
    "labels": {"zone": "a"},
    "taints": [{"key": "dedicated", "value": "training", "effect": "NoSchedule"}],
}


def simulated(name: str, run_seconds: str | None = None, exit_code: str | None = None, **spec: Any) -> Pod:
    notes = {"unisono.io/run-seconds": run_seconds, "unisono.io/exit-code": exit_code}
    annotations = {key: value for key, value in notes.items() if value is not None}
    return manifest(name, metadata={"annotations": annotations}, **{"nodeName": "gpu-1", **spec})


class World:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.client = MemoryClient(self.clock)
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        nodes = SimulatedNodes(self.client, parse_specs([GROUP]), self.clock)
        self.task = asyncio.create_task(nodes.run())
        await nodes.ready.wait()

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def at(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        for _ in range(50):
            await asyncio.sleep(0)

    def status(self, name: str) -> Any:
        return self.client.find(PODS, f"default/{name}").status


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    yield world
    await world.stop()


async def test_nodes(world: World) -> None:
    nodes = world.client.objects(NODES)
    assert [node.metadata.name for node in nodes] == ["gpu-0", "gpu-1", "gpu-2"]
    assert nodes[0].status.allocatable == {"pods": "110", "cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
    assert nodes[0].metadata.labels["zone"] == "a"
    assert nodes[0].spec.taints[0].effect == "NoSchedule"
    await world.at(300)
    assert len(world.client.objects(LEASES)) == 3


async def test_a_new_node_costs_one_write_for_its_lease_and_one_for_each_renewal(world: World) -> None:
    def leases() -> list[str]:
        return [write.operation for write in world.client.writes if write.resource == LEASES.plural]

    await world.at(299)
    assert leases() == ["create"] * 3
    before = {lease.metadata.name: lease.spec.renew_time for lease in world.client.objects(LEASES)}
    await world.at(300)
    assert leases() == ["create"] * 3 + ["patch"] * 3
    after = {lease.metadata.name: lease.spec.renew_time for lease in world.client.objects(LEASES)}
    assert all(after[name] > before[name] for name in before)


async def test_the_lease_of_a_node_that_was_here_before_is_renewed_at_once() -> None:
    world = World()
    old = Lease(metadata=ObjectMeta(name="gpu-0", namespace="kube-node-lease"), spec=LeaseSpec(renew_time="old"))
    world.client.put(LEASES, old)
    await world.start()
    try:
        await world.at(1)
        lease = world.client.find(LEASES, "kube-node-lease/gpu-0")
        assert lease is not None and lease.spec.renew_time != "old"
    finally:
        await world.stop()


def mark_as_lost(world: World) -> None:
    """What the node controller does when heartbeats stay away."""
    for node in world.client.objects(NODES):
        for condition in node.status.conditions or ():
            condition.status = "Unknown"
        world.client.put(NODES, node)


def ready(world: World) -> list[str]:
    return [each.status for node in world.client.objects(NODES) for each in node.status.conditions or ()]


@pytest.mark.parametrize("seconds", [901, 8 * 3600])
async def test_nodes_come_back_after_a_pause(world: World, seconds: float) -> None:
    world.client.put(PODS, simulated("job-0"))
    await world.at(350)
    before = {lease.metadata.name: lease.spec.renew_time for lease in world.client.objects(LEASES)}
    await world.clock.pause(seconds)
    mark_as_lost(world)
    # The first heartbeat after the pause may cross the mark: the next one finds it.
    await world.at(601)
    after = {lease.metadata.name: lease.spec.renew_time for lease in world.client.objects(LEASES)}
    assert all(after[name] > before[name] for name in before)
    assert ready(world) == ["True"] * 3
    assert world.status("job-0").phase == "Running"


async def test_all_leases_are_renewed_at_once_after_a_pause(world: World) -> None:
    await world.at(350)
    writes = len(world.client.writes)
    await world.clock.pause(1000)
    await world.at(1)
    leases = {each.key.rpartition("/")[2] for each in world.client.writes[writes:] if each.resource == LEASES.plural}
    assert leases == {"gpu-0", "gpu-1", "gpu-2"}


@pytest.mark.parametrize(("code", "phase"), [(None, "Succeeded"), ("0", "Succeeded"), ("7", "Failed")])
async def test_a_pod_runs_for_its_time(world: World, code: str | None, phase: str) -> None:
    world.client.put(PODS, simulated("job-0", "30", code))
    await world.at(1)
    assert world.status("job-0").phase == "Running"
    assert {c.type: c.status for c in world.status("job-0").conditions}["Ready"] == "True"
    await world.at(28)
    assert world.status("job-0").phase == "Running"
    await world.at(2)
    assert world.status("job-0").phase == phase
    assert world.status("job-0").container_statuses[0].state.terminated.exit_code == int(code or 0)


async def test_without_a_time_it_runs_until_deleted(world: World) -> None:
    world.client.put(PODS, simulated("job-0"))
    await world.at(100_000)
    assert world.status("job-0").phase == "Running"
    await world.client.delete(PODS, "job-0", "default")
    await world.at(1)
    assert world.client.find(PODS, "default/job-0") is None


async def test_the_object_of_a_deleted_pod_is_deleted_once(world: World) -> None:
    """Its last status comes back through the watch when the object is gone already."""
    asked: list[str] = []

    def note(operation: str, resource: str, namespace: str, name: str) -> None:
        if (operation, resource) == ("delete", PODS.plural):
            asked.append(f"{namespace}/{name}")

    await world.client.create(PODS, simulated("a"))
    await world.at(1)
    await world.client.delete(PODS, "a", "default", grace_seconds=30)
    world.client.interceptor = note
    await world.at(1)
    assert asked == ["default/a"]
    assert world.client.find(PODS, "default/a") is None
    # Another pod of that name is another pod.
    await world.client.create(PODS, simulated("a"))
    await world.at(1)
    await world.client.delete(PODS, "a", "default", grace_seconds=30)
    await world.at(1)
    assert asked.count("default/a") == 3, "the user's own request and the agent's"


async def test_deadline(world: World) -> None:
    world.client.put(PODS, simulated("job-0", "100", activeDeadlineSeconds=10))
    await world.at(11)
    assert (world.status("job-0").phase, world.status("job-0").reason) == ("Failed", "DeadlineExceeded")


async def test_a_restart_goes_on_where_the_last_one_was(world: World) -> None:
    world.client.put(PODS, simulated("job-0", "30"))
    await world.at(10)
    await world.stop()
    await world.at(10)
    await world.start()
    await world.at(5)
    assert world.status("job-0").phase == "Running"
    await world.at(6)
    assert world.status("job-0").phase == "Succeeded"


async def test_pods_of_other_nodes_are_left_alone(world: World) -> None:
    world.client.put(PODS, manifest("foreign", nodeName="elsewhere"))
    await world.at(5)
    assert world.status("foreign").phase is None


async def test_few_writes_per_pod(world: World) -> None:
    for number in range(50):
        world.client.put(PODS, simulated(f"job-{number}", "30"))
    await world.at(1)
    await world.at(60)
    writes = [write for write in world.client.writes if write.resource == "pods"]
    assert len(writes) == 100
    assert world.status("job-49").phase == "Succeeded"


def wanting(name: str, cpu: str, run_seconds: str | None = None) -> Pod:
    return simulated(name, run_seconds, container={"resources": {"requests": {"cpu": cpu}}})


async def test_a_pod_that_does_not_fit_fails_and_others_go_on(world: World) -> None:
    world.client.put(PODS, wanting("first", "40", "30"))
    await world.at(1)
    world.client.put(PODS, wanting("second", "40", "30"))
    world.client.put(PODS, wanting("third", "20", "30"))
    await world.at(1)
    refused = world.status("second")
    assert (refused.phase, refused.reason) == ("Failed", "OutOfcpu")
    assert refused.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 40000, used: 40000, capacity: 64000"
    )
    assert refused.container_statuses is None, "kubectl shows the reason where there are no containers"
    assert (world.status("first").phase, world.status("third").phase) == ("Running", "Running")
    await world.at(40)
    world.client.put(PODS, wanting("late", "40"))
    await world.at(1)
    assert world.status("late").phase == "Running", "what has ended holds nothing"
    assert world.status("second").phase == "Failed"


async def test_after_a_restart_what_runs_keeps_its_place(world: World) -> None:
    world.client.put(PODS, wanting("z-runs", "40"))
    await world.at(1)
    await world.stop()
    world.client.put(PODS, wanting("a-new", "40"))
    await world.start()
    await world.at(1)
    assert world.status("z-runs").phase == "Running"
    assert world.status("a-new").reason == "OutOfcpu"


@pytest.mark.parametrize(
    ("annotations", "seconds", "code"),
    [({}, float("inf"), 0),
     ({"unisono.io/run-seconds": "x"}, float("inf"), 0), ({"unisono.io/run-seconds": "-1"}, 0, 0),
     ({"unisono.io/run-seconds": "1.5", "unisono.io/exit-code": "3"}, 1.5, 3)],
)  # fmt: skip
def test_script(annotations: dict[str, str], seconds: float, code: int) -> None:
    script = script_of(manifest("p", metadata={"annotations": annotations}))
    assert (script.seconds, script.exit_code) == (seconds, code)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Big"}, "[0].name: 'Big' is not a node name"),
        ({"name": "n" * 64}, "must be no more than 63"),
        ({"name": "n" * 62, "count": 11}, "must be no more than 63"),
        ({"name": "n", "labels": {"zone": "not a value"}}, "[0]: the node n-2 would be refused: metadata.labels"),
        (
            {"name": "n", "taints": [{"key": "a b", "effect": "NoSchedule"}]},
            "[0]: the node n-2 would be refused: spec.taints",
        ),
        ({"name": None}, "[0].name"),
        ({"count": 0}, "[0].count: 0 is not a number from 1"),
        ({"count": "3"}, "[0].count"),
        ({"capacity": None}, "[0].capacity: give at least cpu and memory"),
        ({"capacity": {"cpu": 1}}, "[0].capacity.memory: is missing"),
        ({"capacity": {"cpu": "many", "memory": 1}}, "[0].capacity.cpu: 'many' is not a quantity"),
        ({"capacity": {"cpu": -1, "memory": 1}}, "[0].capacity.cpu: -1 is negative"),
        ({"labels": {"a": 1}}, "[0].labels.a: YAML reads 1 without quotes as a number"),
        ({"taints": [{"key": "a", "effect": "Never"}]}, "[0].taints[0]: give key and effect"),
        ({"colour": "red"}, "[0].colour: unknown field"),
    ],
)
def test_bad_specs_name_the_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_specs([GROUP | change], "nodes.yaml")
    assert message in str(error.value)
    assert str(error.value).startswith("nodes.yaml")


def test_two_groups_with_one_name() -> None:
    with pytest.raises(ConfigError, match="Two groups make a node named gpu-0"):
        parse_specs([GROUP, GROUP])


@pytest.mark.parametrize("value", [None, "nodes", {"name": "x"}, ["x"]])
def test_not_a_list_of_groups(value: Any) -> None:
    with pytest.raises(ConfigError):
        parse_specs(value)


async def test_statuses_give_way_where_the_server_is_slow_and_all_are_written() -> None:
    world = World()
    await world.start()
    world.client.latency = 0.4
    for number in range(200):
        world.client.put(PODS, simulated(f"job-{number}", nodeName=f"gpu-{number % 3}"))

    def running() -> int:
        return sum(pod.status.phase == "Running" for pod in world.client.objects(PODS))

    for _ in range(100):
        await world.at(0.1)
    assert running() < 160, "8 writers without a rest do 200"
    for _ in range(150):
        await world.at(0.1)
    assert running() == 200
    await world.stop()
