"""Nodes that fall silent, and their pods."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from workload_world import WorkloadWorld

from unisono.api.core import Lease, Node, NodeCondition, Pod, Taint
from unisono.api.kinds import LEASES, NODES, PODS
from unisono.api.times import rfc3339_micro
from unisono.controllers.builtin import builtin_controllers
from unisono.controllers.nodes import eviction_time
from unisono.errors import ApiError

TROUBLE = "node.kubernetes.io/"


class NodeWorld(WorkloadWorld):
    """With the controller of nodes as well."""

    controllers = staticmethod(builtin_controllers)


def toleration(key: str, seconds: int | None) -> dict[str, Any]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": f"{TROUBLE}{key}", "operator": "Exists", "effect": "NoExecute"} | limit


def pod(name: str, *tolerations: dict[str, Any], node: str = "n") -> Pod:
    value = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "tolerations": list(tolerations), "containers": [{"name": "a"}]},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(value, Pod)


async def start(world: WorkloadWorld) -> None:
    condition = {"type": "Ready", "status": "True"}
    value = {"metadata": {"name": "n"}, "status": {"conditions": [condition]}}
    world.client.put(NODES, msgspec.convert(value, Node))
    await beat(world)


async def beat(world: WorkloadWorld) -> None:
    stamp = rfc3339_micro(world.clock.time())
    value = {
        "metadata": {"name": "n", "namespace": "kube-node-lease"},
        "spec": {"renewTime": stamp, "leaseDurationSeconds": 40},
    }
    world.client.put(LEASES, msgspec.convert(value, Lease))
    await world.settle()


def ready(world: WorkloadWorld) -> str:
    return world.client.find(NODES, "n").status.conditions[0].status


def taints(world: WorkloadWorld) -> list[tuple[str, str]]:
    found = world.client.find(NODES, "n").spec.taints or []
    return [(each.key.removeprefix(TROUBLE), each.effect) for each in found]


async def test_a_node_with_a_full_disk_is_tainted_for_as_long_as_it_says_so():
    async with NodeWorld() as world:
        await start(world)
        for status, expected in (("True", [("disk-pressure", "NoSchedule")]), ("False", [])):
            node = world.client.find(NODES, "n")
            pressure = NodeCondition(type="DiskPressure", status=status)
            node.status.conditions = [node.status.conditions[0], pressure]
            world.client.put(NODES, node)
            await world.settle()
            assert taints(world) == expected


async def test_a_silent_node_is_lost_and_its_pods_leave_when_they_must():
    async with NodeWorld() as world:
        await start(world)
        for name, *tolerations in (
            ("short", toleration("unreachable", 60)),
            ("long", toleration("unreachable", 300)),
            ("daemon", toleration("unreachable", None)),
            ("other", toleration("not-ready", 300)),
        ):
            world.client.put(PODS, pod(name, *tolerations))
        for _ in range(3):
            await world.advance(30)
            await beat(world)
        assert ready(world) == "True"
        await world.advance(41)
        assert ready(world) == "Unknown"
        assert taints(world) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
        await world.finish_deletions()
        assert world.names() == ["daemon", "long", "short"]
        await world.advance(61)
        assert world.names() == ["daemon", "long"]
        reason = next(p for p in world.pods() if p.metadata.name == "short").status.conditions[-1].reason
        assert reason == "DeletionByTaintManager"
        await world.advance(240)
        assert world.names() == ["daemon"]


async def test_a_node_that_comes_back_loses_the_taints_and_keeps_its_pods():
    async with NodeWorld() as world:
        await start(world)
        world.client.put(PODS, pod("p", toleration("unreachable", 300)))
        await world.client.patch(NODES, "n", {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
        await world.advance(45)
        assert len(taints(world)) == 3
        condition = {"type": "Ready", "status": "True"}
        status = {"status": {"conditions": [condition]}}
        await beat(world)
        await world.client.patch(NODES, "n", status, subresource="status")
        await world.settle()
        await world.advance(5)
        assert taints(world) == [("mine", "NoSchedule")]
        assert world.names() == ["p"]


async def test_after_a_pause_of_the_control_plane_a_node_gets_its_time_anew():
    async with NodeWorld() as world:
        await start(world)
        world.client.put(PODS, pod("p"))
        await world.stop()
        await world.clock.advance(3600)
        await world.start()
        assert ready(world) == "True"
        await world.advance(30)
        await beat(world)
        await world.advance(30)
        assert ready(world) == "True"
        assert world.names() == ["p"]


@pytest.mark.parametrize("seconds", [46, 1000, 8 * 3600])
async def test_a_node_whose_controller_was_stopped_meanwhile_gets_its_time_anew(seconds):
    async with NodeWorld() as world:
        await start(world)
        world.client.put(PODS, pod("p"))
        await world.clock.pause(seconds)
        assert ready(world) == "True"
        assert world.names() == ["p"]
        # Silent after that, it is lost all the same: its time is given once more for the same heartbeat, not for ever.
        await world.advance(41)
        assert ready(world) == "Unknown"


async def test_a_node_without_a_lease_is_left_alone():
    async with NodeWorld() as world:
        await start(world)
        world.client.remove(LEASES, "kube-node-lease/n")
        await world.advance(1000)
        assert ready(world) == "True"


async def test_pods_of_a_node_that_is_gone_are_removed():
    async with NodeWorld() as world:
        await start(world)
        world.client.put(PODS, pod("p"))
        await world.settle()
        world.client.remove(NODES, "n")
        await world.settle()
        assert world.names() == ["p"]
        await world.advance(45)
        assert world.pods() == []


@pytest.mark.parametrize(
    ("tolerations", "due"),
    [
        ([], 100.0),
        ([{"operator": "Exists"}], None),
        ([toleration("not-ready", 30)], 130.0),
        ([toleration("not-ready", 30), toleration("not-ready", None)], 130.0),
        ([toleration("not-ready", -5)], 100.0),
    ],
)
def test_when_a_pod_must_leave(tolerations, due):
    taint = Taint(key=f"{TROUBLE}not-ready", effect="NoExecute")
    assert eviction_time(pod("p", *tolerations), [taint], 100.0) == due
    assert eviction_time(pod("p"), [Taint(key="a", effect="NoSchedule")], 100.0) is None


async def test_a_refusal_of_the_server_is_no_fault_of_the_pod():
    async with NodeWorld() as world:
        await start(world)
        world.client.put(PODS, pod("a", toleration("unreachable", 0)))
        await world.settle()
        refuse = True

        def intercept(operation: str, *arguments: Any) -> None:
            if refuse and operation == "delete" and "pods" in str(arguments):
                raise ApiError("the server is ill")

        world.client.interceptor = intercept
        await world.advance(60.0)
        assert ready(world) == "Unknown"
        found = world.client.find(PODS, "default/a")
        assert "ReconcileFailed" not in {each.type for each in found.status.conditions or ()}
        refuse = False
        await world.advance(15.0)
        assert world.client.find(PODS, "default/a").metadata.deletion_timestamp is not None


async def test_pods_of_a_node_that_is_out_of_service_go_at_once():
    off = {"key": f"{TROUBLE}out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    async with NodeWorld() as world:
        await start(world)
        world.client.put(PODS, pod("p", toleration("unreachable", 300), {"operator": "Exists"}))
        await world.client.patch(NODES, "n", {"spec": {"taints": [off]}})
        await world.settle()
        assert world.client.find(PODS, "default/p") is not None, "a node that is ready is believed more"
        # It falls silent: nobody will ever say that the pod has ended.
        await world.advance(60)
        assert world.client.find(PODS, "default/p") is None
