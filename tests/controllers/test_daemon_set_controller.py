"""DaemonSets: which nodes get a pod, and how pods are replaced."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from workload_world import WorkloadWorld, build, template, workload

from unisono.api.core import Node, PodSpec, Taint, Toleration
from unisono.api.kind_families import CONTROLLER_REVISIONS, DAEMON_SETS
from unisono.api.kinds import NODES, PODS
from unisono.controllers.workloads.daemon_set import node_of
from unisono.controllers.workloads.templates import covers, fits


def node(name: str, labels: dict[str, str] | None = None, *taints: dict[str, str]) -> Node:
    made = build(NODES, name, metadata={"labels": labels or {}}, taints=list(taints))
    made.metadata.namespace = None
    return made


async def start(world: WorkloadWorld, nodes: int = 3, **spec: Any) -> None:
    for number in range(nodes):
        await world.client.create(NODES, node(f"n{number}", {"zone": "a" if number % 2 else "b"}))
    await world.make(DAEMON_SETS, workload(DAEMON_SETS, **spec))


async def run(world: WorkloadWorld) -> None:
    """The scheduler puts every pod on its node, and it runs there."""
    for pod in world.pods(deleting=False):
        if pod.status.phase in (None, "Pending"):
            world.make_ready(pod, node_of(pod))
    await world.settle()


async def roll(world: WorkloadWorld) -> None:
    for _ in range(20):
        await run(world)
        await world.finish_deletions()
        await world.advance(2)


def where(world: WorkloadWorld) -> list[str]:
    return sorted(node_of(pod) for pod in world.pods(deleting=False))


async def test_every_node_gets_a_pod_also_those_that_come_later():
    async with WorkloadWorld() as world:
        await start(world)
        await run(world)
        assert where(world) == ["n0", "n1", "n2"]
        await world.make(NODES, node("n3"))
        assert where(world) == ["n0", "n1", "n2", "n3"]
        status = world.one(DAEMON_SETS).status
        assert (status.desired_number_scheduled, status.number_ready, status.number_unavailable) == (4, 3, 1)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"zone": "a"}}, ["n1"]),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, ["gpu", "n0", "n1", "n2"]),
    ],
)
async def test_selectors_and_taints(spec, expected):
    async with WorkloadWorld() as world:
        await world.client.create(NODES, node("gpu", {}, {"key": "gpu", "effect": "NoSchedule"}))
        await start(world, template=template(**spec))
        assert where(world) == expected


async def test_a_cordoned_node_keeps_its_daemon_and_a_relabelled_one_loses_it():
    async with WorkloadWorld() as world:
        await start(world, template=template(nodeSelector={"zone": "b"}))
        await run(world)
        taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        await world.client.patch(NODES, "n0", {"spec": {"taints": [taint]}})
        await world.client.patch(NODES, "n2", {"metadata": {"labels": {"zone": "c"}}})
        await world.settle()
        assert where(world) == ["n0"]


async def test_an_update_goes_node_by_node():
    async with WorkloadWorld() as world:
        await start(world)
        await run(world)
        await world.edit(DAEMON_SETS, "web", template=template("busybox:2"))
        assert world.by_image() == {"busybox:1": 2}
        await world.finish_deletions()
        assert world.by_image() == {"busybox:1": 2, "busybox:2": 1}
        await roll(world)
        assert world.by_image() == {"busybox:2": 3}
        assert world.one(DAEMON_SETS).status.updated_number_scheduled == 3
        assert len(world.client.objects(CONTROLLER_REVISIONS)) == 2


async def test_an_update_that_surges_takes_the_old_pod_when_the_new_one_works():
    async with WorkloadWorld() as world:
        surge = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await start(world, updateStrategy=surge)
        await run(world)
        await world.edit(DAEMON_SETS, "web", template=template("busybox:2"))
        assert world.by_image() == {"busybox:1": 3, "busybox:2": 1}
        await run(world)
        assert world.by_image()["busybox:1"] == 2
        await roll(world)
        assert world.by_image() == {"busybox:2": 3}


async def test_a_failed_daemon_comes_back_after_a_pause():
    async with WorkloadWorld() as world:
        await start(world, nodes=1)
        await run(world)
        (pod,) = world.pods()
        world.set_pod(pod, "Failed")
        pod.spec.node_name = "n0"
        world.client.put(PODS, pod)
        await world.settle()
        await world.advance(5)
        assert [each.metadata.uid for each in world.pods()] == [pod.metadata.uid]
        await world.advance(6)
        await world.finish_deletions()
        assert [each.metadata.uid for each in world.pods()] != [pod.metadata.uid]
        assert len(world.pods()) == 1


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        ({"operator": "Exists"}, ("a", "b", "NoSchedule"), True),
        ({"key": "a", "value": "b"}, ("a", "b", "NoSchedule"), True),
        ({"key": "a", "value": "c"}, ("a", "b", "NoSchedule"), False),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, ("a", "b", "NoSchedule"), False),
        ({}, ("a", "", "NoSchedule"), False),
    ],
)
def test_tolerations(toleration, taint, expected):
    key, value, effect = taint
    assert covers(msgspec.convert(toleration, Toleration), Taint(key=key, value=value, effect=effect)) is expected


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ([{"key": "cpu", "operator": "Gt", "values": ["4"]}], True),
        ([{"key": "cpu", "operator": "Lt", "values": ["4"]}], False),
        ([{"key": "cpu", "operator": "NotIn", "values": ["8"]}], False),
        ([{"key": "gpu", "operator": "DoesNotExist"}], True),
        ([], False),
    ],
)
def test_node_affinity(expressions, expected):
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = msgspec.convert({"affinity": affinity}, PodSpec)
    assert fits(spec, node("n", {"cpu": "8"})) is expected
